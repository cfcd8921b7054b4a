"""Each rule between the rows, broken behind the store's back, is named by verify()."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, change, finish, say

BREAKS = {
    "DELETE FROM holding WHERE message = (SELECT root FROM conversation)": (
        "does not hold the one before it"
    ),
    "DELETE FROM holding WHERE message = (SELECT tip FROM conversation)": "is held by nobody",
    "UPDATE conversation SET principal = 'ada'": "is at a message that ada does not hold",
    "UPDATE conversation SET root = NULL": "does not begin with its system message",
    "UPDATE response SET principal = 'ada'": "is not of the principal of its conversation",
    "UPDATE response SET answer = question": "does not follow its question",
    "UPDATE idempotency SET principal = 'ada'": "began a response of somebody else's",
    "UPDATE holding SET searchable = 0 WHERE number = 1": "what comes before it cannot",
    "UPDATE holding SET searchable = 0 WHERE number = 3": "the search index does not have just",
    "DELETE FROM message_fts_docsize WHERE id = 2": "the search index does not have just",
    "DELETE FROM message_fts_data WHERE id > 10": "the search index is damaged",
    "UPDATE response SET question = 'msg_X'": "refers to nothing",
}


@pytest.mark.parametrize(("sql", "complaint"), BREAKS.items())
def test_what_is_broken_is_named(path: Path, sql: str, complaint: str) -> None:
    """In a sentence with the id; the same file was sound before."""
    with Store(path) as store:
        conversation = store.create_conversation(principal=ME, system="S")
        finish(store, begin(store, conversation, event=("e", "d")).id)
        say(store, conversation, "Again")
        assert store.verify() == []
        change(path, sql)
        problems = store.verify()
    assert any(complaint in problem for problem in problems), problems
