"""What became of a conversation elsewhere, in words."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.foreign_changes import foreign_changes
from radixchat.server.protocol import MessageView

ROLES = {"s": "system", "u": "user", "a": "assistant"}


def path(ids: str) -> list[MessageView]:
    """Messages by their ids, whose first letters are the roles; without their marks: the texts."""
    return [MessageView(name, ROLES[name[0]], name.rstrip("'"), "complete") for name in ids.split()]


@pytest.mark.parametrize(
    ("known", "now", "told"),
    [
        ("", "", None),
        ("s u1 a1", "s u1 a1", None),
        ("s", "s u1 a1", "1 turn was added elsewhere"),
        ("u1 a1", "u1 a1 u2 a2 u3", "2 turns were added elsewhere"),
        ("u1 a1 u2 a2", "u1 a1", "1 turn was taken back elsewhere"),
        (
            "u1 a1 u2 a2",
            "u3 a3",
            "2 turns were taken back elsewhere, 1 turn was added elsewhere",
        ),
        ("u1 a1", "u1 a2", "the last message was answered elsewhere"),
        ("u1", "u1 a1", "the last message was answered elsewhere"),
        ("s1 u1 a1", "s2 u1' a1'", "the system message was changed elsewhere"),
        ("s1 u1 a1", "u1' a1'", "the system message was changed elsewhere"),
        ("u1 a1", "s2 u1' a1'", "the system message was changed elsewhere"),
        (
            "s1 u1 a1 u2 a2",
            "s2 u1' a1' u3 a3",
            "the system message was changed elsewhere, 1 turn was taken back elsewhere, "
            "1 turn was added elsewhere",
        ),
    ],
)
def test_foreign_changes(known: str, now: str, told: str | None) -> None:
    """Turns are counted by their user's messages; nothing is told of what is known."""
    assert foreign_changes(path(known), path(now)) == told
