"""Responses in the database, and the events that began them: the statements for one thing each.

Every function takes the open database and is a part of the caller's transaction. Knows no owner,
and not when a change is allowed: that is `store.py`.
"""

from __future__ import annotations

import json
import time
from typing import Any

from sqlite_utils import Database

from radixchat.engine.errors import IdempotencyConflict, ResponseNotFound, StoreError
from radixchat.server.message import Answer, unpack_ids
from radixchat.server.rows import (
    IN_PROGRESS,
    MESSAGE_STATUS,
    RUNNING,
    BegunResponse,
    Outcome,
    ResponseRow,
    select,
)
from radixchat.server.rows_conversation import find_place
from radixchat.server.rows_message import insert_message

EVENT_SECONDS = 24 * 3600.0

_ANSWERED = "answer IS NOT NULL AND status IN ('completed', 'incomplete')"


def find_response(db: Database, response: str, principal: str | None = None) -> ResponseRow:
    """That response, of that principal or (None) of anybody; raises ResponseNotFound."""
    for row in select(db, "SELECT * FROM response WHERE id = :id", id=response):
        if principal is None or row["principal"] == principal:
            return _response(row)
    raise ResponseNotFound(f"there is no response {response!r}")


def find_responses(db: Database, conversation: str) -> list[ResponseRow]:
    """The responses of a conversation, in the order in which they were begun."""
    sql = "SELECT * FROM response WHERE conversation = :conversation ORDER BY rowid"
    return [_response(row) for row in select(db, sql, conversation=conversation)]


def find_maker(db: Database, answer: str, principal: str) -> ResponseRow | None:
    """The principal's first response that made that message."""
    sql = """
    SELECT * FROM response WHERE answer = :answer AND principal = :principal ORDER BY rowid LIMIT 1
    """
    found = select(db, sql, answer=answer, principal=principal)
    return _response(found[0]) if found else None


def find_begun(db: Database, event_id: str, digest: str, principal: str) -> BegunResponse | None:
    """What that event has begun within 24 hours.

    Raises IdempotencyConflict where it asked for something else.
    """
    sql = """
    SELECT response.id, conversation, question, response.created_at, digest
    FROM idempotency JOIN response ON response.id = response
    WHERE idempotency.principal = :principal AND event_id = :event_id
    AND idempotency.created_at > :since
    """
    since = time.time() - EVENT_SECONDS
    for row in select(db, sql, principal=principal, event_id=event_id, since=since):
        if row.pop("digest") != digest:
            raise IdempotencyConflict(
                f"event_id {event_id!r} was sent within 24 hours with other content"
            )
        return BegunResponse(**row, replayed=True)
    return None


def insert_event(db: Database, event_id: str, digest: str, principal: str, response: str) -> None:
    """Keep that the event began the response, and no longer than 24 hours; also of the others."""
    now = time.time()
    db.execute("DELETE FROM idempotency WHERE created_at <= ?", [now - EVENT_SECONDS])
    event = {"principal": principal, "event_id": event_id, "digest": digest}
    db.table("idempotency").insert(event | {"response": response, "created_at": now})


def earlier_responses(db: Database, response: ResponseRow, answer: str | None) -> list[ResponseRow]:
    """The last response of its conversation before that one, and the last that made `answer`.

    Only such as have an answer that did not fail, and are the same principal's; each once.
    """
    earlier = f"SELECT * FROM response WHERE {_ANSWERED} AND id != :id AND principal = :principal"
    last = f"{earlier} AND conversation = :conversation ORDER BY rowid DESC LIMIT 1"
    # Another conversation's, where this one was forked from it.
    of_answer = f"{earlier} AND answer = :answer"
    maker = f"{of_answer} ORDER BY conversation = :conversation DESC, rowid DESC LIMIT 1"
    values = {
        "id": response.id,
        "principal": response.principal,
        "conversation": response.conversation,
        "answer": answer,
    }
    found = [*select(db, last, **values), *select(db, maker, **values)]
    return [_response(row) for row in {row["id"]: row for row in found}.values()]


def running_responses(db: Database) -> list[ResponseRow]:
    """The responses in progress, of all conversations and processes."""
    return [_response(row) for row in select(db, f"SELECT * FROM response WHERE {RUNNING}")]


def running_siblings(db: Database, conversation: str) -> list[str]:
    """The responses that run beside those of a conversation."""
    sql = f"""
    SELECT id FROM response WHERE {RUNNING}
    AND conversation IN (SELECT id FROM conversation WHERE sibling_of = :conversation)
    """
    return [str(row["id"]) for row in select(db, sql, conversation=conversation)]


def running_response(db: Database, conversation: str) -> str | None:
    """The id of the response in progress in that conversation, if there is one."""
    running = f"SELECT id FROM response WHERE conversation = :conversation AND {RUNNING}"
    return next((row["id"] for row in select(db, running, conversation=conversation)), None)


def output_tokens_since(db: Database, seconds: float) -> dict[str, int]:
    """The tokens of the responses that ended since then, by principal."""
    sql = """
    SELECT principal, coalesce(sum(json_extract(usage, '$.output_tokens')), 0) AS tokens
    FROM response WHERE updated_at >= :seconds AND json_valid(usage) GROUP BY principal
    """
    return {row["principal"]: row["tokens"] for row in select(db, sql, seconds=seconds)}


def end_response(db: Database, row: ResponseRow, outcome: Outcome) -> str | None:
    """Store the answer, if there is one, and move the tip there from the message answered; its id.

    An answer that ended before its first token is none, unless the model itself ended it: then
    it is an empty one. Without an answer a regeneration gives the old one back.
    """
    assert row.status == IN_PROGRESS, f"response {row.id} has ended already: {row.status}"
    now, made = time.time(), outcome.answer or row.saved
    answer = None
    if made.text or made.token_ids or (outcome.status == "completed" and row.generates):
        answer = insert_message(
            db,
            find_place(db, row.conversation),
            parent=row.question,
            role="assistant",
            text=made.text,
            token_ids=made.token_ids,
            status=MESSAGE_STATUS[outcome.status],
            render_hash=row.render_hash,
        )
    tip = answer or row.tip_before
    if tip is not None:
        db.execute(
            "UPDATE conversation SET tip = ?, updated_at = ? WHERE id = ? AND tip = ?",
            [tip, now, row.conversation, row.question],
        )
    error = outcome.error
    ended = {
        "answer": answer,
        "status": outcome.status,
        "reason": outcome.reason,
        # For people: what has no UTF-8 form (a file name, say) must not keep the turn from ending.
        "error": error and error.encode(errors="backslashreplace").decode(),
        "text": "",  # it is the answer's now
        "token_ids": b"",
        "sequence": row.sequence if outcome.sequence is None else outcome.sequence,
        "usage": json.dumps(dict(outcome.usage)),
        "timings": json.dumps(dict(outcome.timings)),
        "updated_at": now,
    }
    db.table("response").update(row.id, ended)
    return answer


def has_ended_so(db: Database, row: ResponseRow, outcome: Outcome) -> bool:
    """Whether a response that has ended has that status and that answer."""
    stored = Answer("", ())
    for kept in select(db, "SELECT text, token_ids FROM message WHERE id = :id", id=row.answer):
        stored = Answer(kept["text"], unpack_ids(kept["token_ids"]))
    return (row.status, stored) == (outcome.status, outcome.answer)


def _response(row: dict[str, Any]) -> ResponseRow:
    try:
        saved = Answer(row.pop("text"), unpack_ids(row.pop("token_ids")))
        objects = ("options", "usage", "timings", "metadata")
        parsed = {key: json.loads(row[key] or "{}") for key in objects}
    except (TypeError, ValueError) as error:
        raise StoreError(f"response {row['id']} is damaged: {error}") from error
    return ResponseRow(saved=saved, **row | parsed)
