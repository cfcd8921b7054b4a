"""Conversations as text: a path in full, a tree in lines."""

from __future__ import annotations

from dataclasses import replace

from radixchat.chat_cli.conversation_text import branches_of, text_of
from radixchat.server.protocol import MessageView, TreeMessage


def message(
    number: int, parent: int | None, text: str = "", *, on_path: bool = True
) -> TreeMessage:
    """A message; those of even numbers are the user's."""
    role = "assistant" if number % 2 else "user"
    above = None if parent is None else f"m{parent}"
    return TreeMessage(f"m{number}", above, role, text, "complete", on_path, (), float(number))


def test_a_path() -> None:
    """Who, what became of it, and the text as it is; a blank line between messages."""
    messages = [
        MessageView("m1", "user", "Why?\n\n", "complete"),
        MessageView("m2", "assistant", "Because\n\n  of", "interrupted"),
    ]
    assert text_of(messages) == "[user]\nWhy?\n\n[assistant, cut short]\nBecause\n\n  of\n"
    assert text_of([]) == ""


def test_a_tree() -> None:
    """Branches follow each other, the oldest first, indented below where they part."""
    tree = [
        message(0, None, "Hi"),
        message(1, 0, "first\n\tanswer \x1b[2J", on_path=False),
        message(2, 1, "more", on_path=False),
        message(3, 0, "x" * 99),
        message(4, 3, "on"),
    ]
    assert branches_of(tree).splitlines() == [
        "m0 * user: Hi",
        "m1     assistant: first answer ␛[2J",
        "m2     user: more",
        f"m3 *   assistant: {'x' * 59}…",
        "m4 *   user: on",
    ]
    assert branches_of([]) == ""


def test_a_long_tree() -> None:
    """Thousands of messages in a row are no depth."""
    tree = [message(n, n - 1 if n else None, "x") for n in range(5000)]
    assert branches_of(tree).count("\n") == 5000
    assert max(map(len, branches_of(tree).splitlines())) < 40
    second = replace(tree[-1], id="other")
    assert branches_of([*tree, second]).splitlines()[-1] == "other *   assistant: x"
