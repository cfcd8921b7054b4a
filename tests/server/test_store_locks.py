"""One turn at a time, and what is recovered when the process that ran it is gone."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from radixchat.engine.errors import ConversationLocked
from radixchat.server.message import Answer
from radixchat.server.owner import LEASE_SECONDS
from radixchat.server.protocol import describe_error
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, change, finish, load, say


def test_one_turn_at_a_time(store: Store) -> None:
    """While a response runs its conversation takes no turn and no undo; others do."""
    conversation, other = (
        store.create_conversation(principal="local"),
        store.create_conversation(principal="local"),
    )
    row = begin(store, conversation)
    with pytest.raises(ConversationLocked, match=row.id) as locked:
        begin(store, conversation)
    with pytest.raises(ConversationLocked, match=row.id):
        store.move_tip(conversation, expected=row.question, new=None, principal="local")
    info = describe_error(locked.value)
    assert (info.code, info.status) == ("conversation_locked", 409)
    assert info.details == {"retry_after_ms": 500}
    say(store, other)
    finish(store, row.id)
    say(store, conversation)


def test_the_schema_admits_one_running_response(store: Store, path: Path) -> None:
    """Two of one conversation cannot be in progress, even if all the code above is wrong."""
    conversation = store.create_conversation(principal="local")
    for _ in range(2):
        say(store, conversation)
    with pytest.raises(sqlite3.IntegrityError), closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE response SET status = 'in_progress'")


def test_a_response_recovered_by_many_ends_once(path: Path) -> None:
    """Of several processes that find the same response abandoned, one ends it."""
    with Store(path) as store, closing(sqlite3.connect(path)) as writer:
        conversation = store.create_conversation(principal="local")
        row = begin(store, conversation)
        others = [Store(path) for _ in range(3)]
        store.save_partial(row.id, Answer("part", (1,)))
        change(path, "UPDATE response SET owner = 'flock_GONE'")
        ended: list[str] = []
        threads = [threading.Thread(target=lambda o=o: ended.extend(o.recover())) for o in others]
        writer.execute("BEGIN IMMEDIATE")  # all have looked before the first one may write
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        writer.rollback()
        for thread in threads:
            thread.join()
        for other in others:
            other.close()
        assert ended == [row.id]
        assert load(store, conversation).messages[-1].text == "part"


def test_tip_moved(store: Store, path: Path) -> None:
    """Of two that read the same tip the second is told to read it again; nothing interleaves."""
    conversation = store.create_conversation(principal="local")
    tip = say(store, conversation)
    with Store(path) as other:
        moved = say(other, conversation, "From elsewhere")
    for use in (
        lambda: begin(store, conversation, expected_tip=tip, parent=tip),
        lambda: store.move_tip(conversation, expected=tip, new=None, principal="local"),
    ):
        with pytest.raises(ConversationLocked, match="moved on") as locked:
            use()
        assert locked.value.retry_after_ms == 0
    assert store.conversation(conversation, principal="local").tip == moved


def test_own_response_is_alive(store: Store) -> None:
    """A store does not recover what it runs itself, however long ago it was heard of."""
    row = begin(store, store.create_conversation(principal="local"))
    change(store._file.path, "UPDATE response SET updated_at = 1")
    assert store.recover() == []
    assert store.response(row.id, principal="local").status == "in_progress"


def test_recovery_does_not_count_as_use(path: Path) -> None:
    """The last conversation is the one last used, not the one last recovered."""
    with Store(path) as store:
        abandoned, used = (
            store.create_conversation(principal="local"),
            store.create_conversation(principal="local"),
        )
        row = begin(store, abandoned)
        store.save_partial(row.id, Answer("part", (1,)))
        say(store, used)
    with Store(path) as store:
        assert store.response(row.id, principal="local").status == "incomplete"
        assert store.recover() == []
        assert store.latest(principal="local") == used


def test_recovery_of_a_response_that_was_overtaken(path: Path) -> None:
    """An answer recovered after the tip has moved is kept beside, and moves nothing."""
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        tip = say(store, conversation)
        row = begin(store, conversation)
        store.save_partial(row.id, Answer("part", (1,)))
        change(path, "UPDATE conversation SET tip = ?", tip)
    with Store(path) as store:
        assert store.conversation(conversation, principal="local").tip == tip
        assert (
            store.path(store.response(row.id, principal="local").answer, principal="local")[-1].text
            == "part"
        )


def test_lease_without_locks(path: Path) -> None:
    """Where there are no locks, a response is recovered once its heartbeat is late."""
    with Store(path) as store:
        row = begin(store, store.create_conversation(principal="local"))
        for age, recovered in ((LEASE_SECONDS / 2, []), (LEASE_SECONDS + 1, [row.id])):
            heard = time.time() - age
            change(path, "UPDATE response SET owner = 'lease_X', updated_at = ?", heard)
            assert store.recover() == recovered
