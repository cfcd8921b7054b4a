"""A conversation's path as Markdown."""

from __future__ import annotations

import pytest

from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, change, finish, say


def test_a_conversation_to_be_read(store: Store) -> None:
    """Its title, what it is, and who said what, on the path only."""
    conversation = store.create_conversation(principal=ME, title="Eggs\nand ham", system="Cook.")
    first = say(store, conversation, "How long?", "Eight minutes.\n")
    say(store, conversation, "Sure?", "Yes.")
    row = begin(store, conversation, "And ham?", parent=first)
    finish(store, row.id, "About", status="incomplete")
    change(store._file.path, "UPDATE conversation SET created_at = 0")
    assert store.export(conversation, principal=ME, kind="markdown") == (
        "# Eggs and ham\n\n"
        f"*{conversation}, 2 turns, begun 1970-01-01 00:00 UTC*\n\n"
        "## System\n\nCook.\n\n"
        "## User\n\nHow long?\n\n"
        "## Assistant\n\nEight minutes.\n\n"
        "## User\n\nAnd ham?\n\n"
        "## Assistant (cut short)\n\nAbout\n"
    )


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("```py\ncode", "code\n```\n"),
        ("~~~~\n```\ncode", "code\n~~~~\n"),
        ("```\ncode\n````", "code\n````\n"),
        ("```\ncode\n``` not the end", "not the end\n```\n"),
        ("``` inline ``` code", "code\n"),
        ("    ```\nindented", "indented\n"),
    ],
)
def test_an_open_code_block_is_closed(store: Store, text: str, ends: str) -> None:
    """Else the next heading would be code."""
    conversation = store.create_conversation(principal=ME)
    say(store, conversation, "Q", text)
    assert store.export(conversation, principal=ME, kind="markdown").endswith(ends)


def test_an_empty_conversation(store: Store) -> None:
    """Is a heading."""
    conversation = store.create_conversation(principal=ME)
    text = store.export(conversation, principal=ME, kind="markdown")
    assert text.startswith(f"# Conversation\n\n*{conversation}, 0 turns, begun ")
