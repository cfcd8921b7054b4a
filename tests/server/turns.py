"""Turns on a store, for the tests: what a service does, without an engine."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from radixchat.server.conversation import Conversation
from radixchat.server.message import Answer, NewMessage
from radixchat.server.rows import Outcome, ResponseRow
from radixchat.server.store import Store

ME = "local"


def load(store: Store, conversation: str, principal: str = ME) -> Conversation:
    """The path to the tip."""
    row = store.conversation(conversation, principal=principal)
    return Conversation(row.id, tuple(store.path(row.tip, principal=principal)))


def texts(store: Store, conversation: str, principal: str = ME) -> list[str]:
    """What was said on the path to the tip."""
    return [message.text for message in load(store, conversation, principal).messages]


def begin(
    store: Store,
    conversation: str,
    text: str | None = "Hi",
    ids: tuple[int, ...] = (1, 2),
    *,
    principal: str = ME,
    **changes: Any,
) -> ResponseRow:
    """Begin a turn at the tip, but for the changes; text None answers the parent again."""
    tip = store.conversation(conversation, principal=principal).tip
    arguments: dict[str, Any] = {
        "expected_tip": tip,
        "parent": tip,
        "user": None if text is None else NewMessage(text, ids),
        "options": {"temperature": 0.5},
        "render_hash": "r",
        "principal": principal,
    }
    begun = store.begin_response(conversation=conversation, **arguments | changes)
    return store.response(begun.id, principal=principal)


def finish(
    store: Store,
    response: str,
    text: str = "Hello",
    token_ids: tuple[int, ...] | None = None,
    **changes: Any,
) -> str | None:
    """Complete a response, but for the changes; the answer's id."""
    answer = Answer(text, tuple(text.encode()) if token_ids is None else token_ids)
    arguments: dict[str, Any] = {
        "status": "completed",
        "usage": {"input_tokens": 2, "output_tokens": 6},
        "timings": {"ttft_ms": 1.5},
    }
    return store.finish_response(response, Outcome(answer=answer, **arguments | changes))


def say(
    store: Store, conversation: str, text: str = "Hi", answer: str = "Hello", principal: str = ME
) -> str:
    """One turn at the tip, whose ids are its text's bytes; the answer's id."""
    row = begin(store, conversation, text, tuple(text.encode()), principal=principal)
    made = finish(store, row.id, answer)
    assert made is not None
    return made


def counts(store: Store) -> dict[str, int]:
    """How many rows there are of what deleting has to take away."""
    tables = ("conversation", "response", "message", "holding", "message_fts_docsize")
    with store._file.reading() as db:
        return {name: db.table(name).count for name in (*tables, "idempotency")}


def change(path: Path, sql: str, *values: object) -> None:
    """Behind the store's back."""
    connection = sqlite3.connect(path)
    connection.execute(sql, values)
    connection.commit()
    connection.close()
