"""The tail of a continued conversation."""

from __future__ import annotations

from radixchat.chat_cli.render import TextOutput
from radixchat.chat_cli.tail import show_tail
from radixchat.server.protocol import MessageView
from radixchat.tests.chat_cli.consoles import Recording, console, notes


def tail(*messages: tuple[str, str, str]) -> tuple[str, list[str]]:
    """What the messages (role, text, status) show: answers, and notes."""
    speaker, errors = notes()
    answers = Recording()
    views = [MessageView(f"msg_{i}", *message) for i, message in enumerate(messages)]
    show_tail(views, TextOutput(console(answers), speaker), speaker)
    return answers.getvalue(), errors.getvalue().splitlines()


def test_last_turn() -> None:
    """The last message and its answer, and how many turns came before."""
    assert tail(
        ("system", "be brief", "complete"),
        ("user", "one", "complete"),
        ("assistant", "1", "complete"),
        ("user", "two\nlines\x1b[2J", "complete"),
        ("assistant", "2", "complete"),
    ) == ("2\n", ["… 1 earlier turn", "> two", "> lines␛[2J"])


def test_interrupted() -> None:
    """An interrupted answer is marked."""
    assert tail(("user", "one", "complete"), ("assistant", "par", "interrupted")) == (
        "par\n",
        ["> one", "this answer was cut short; /continue goes on with it"],
    )


def test_no_answer() -> None:
    """A message that was never answered says how to get one."""
    answers, lines = tail(("user", "one", "complete"))
    assert answers == ""
    assert lines == ["> one", "this message has no answer; /regen asks for one"]


def test_nothing() -> None:
    """A conversation without a turn shows nothing."""
    assert tail(("system", "be brief", "complete")) == ("", [])
