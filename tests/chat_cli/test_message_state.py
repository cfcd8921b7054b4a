"""What became of a message, in a word."""

from __future__ import annotations

from radixchat.chat_cli.message_state import state_word


def test_a_state_in_a_word() -> None:
    """The one that limits and Ctrl-C have in common is not said to be an interruption."""
    assert state_word("complete") == ""
    assert (state_word("interrupted"), state_word("error")) == ("cut short", "failed")
    assert state_word("another") == "another"
