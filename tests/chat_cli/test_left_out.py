"""What an answer does without, in turns as people count them."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.left_out import left_out_note
from radixchat.server.protocol import MessageView, ResponseCreated

PATH = [
    MessageView(name, role, "text", "complete")
    for name, role in (
        ("s", "system"),
        ("u1", "user"),
        ("a1", "assistant"),
        ("u2", "user"),
        ("u3", "user"),
        ("a3", "assistant"),
    )
]


@pytest.mark.parametrize(
    ("left_out", "what"),
    [
        (("u1", "a1"), "turn 1 does not fit and is left out"),
        (("u1", "a1", "u2"), "turns 1 to 2 do not fit and are left out"),
        (("u1", "a1", "u2", "u3", "a3"), "turns 1 to 3 do not fit and are left out"),
        (("x", "y"), "the oldest messages do not fit and are left out"),
    ],
)
def test_turns(left_out: tuple[str, ...], what: str) -> None:
    """Turns are numbered as /edit numbers them; messages of another path have no number."""
    note = left_out_note(ResponseCreated("c", "r", left_out, 2310), PATH)
    assert note == f"{what}, 2,310 tokens; the conversation keeps them"


def test_nothing() -> None:
    """Where everything fits nothing is said."""
    assert left_out_note(ResponseCreated("c", "r"), PATH) is None
