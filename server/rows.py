"""The store's rows as values, and the statements that read and write one thing each.

Every function takes the open database and is a part of the caller's transaction. Knows the
schema; knows no lock, no owner, and not when a change is allowed: that is `store.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlite_utils import Database

from radixchat.engine.errors import ConversationNotFound, InvalidRequest, StoreError
from radixchat.server.message import (
    NOTHING,
    Answer,
    LeftOut,
    Message,
    message_id,
    pack_ids,
    unpack_ids,
)

IN_PROGRESS = "in_progress"

# Spelt out, so that SQLite uses the index that has only these rows.
RUNNING = f"status = '{IN_PROGRESS}'"

_ANSWERED = "answer IS NOT NULL AND status IN ('completed', 'incomplete')"

# A message's status by that of the response that made it.
MESSAGE_STATUS = {"completed": "complete", "incomplete": "interrupted", "failed": "error"}

_CONVERSATION = """
SELECT c.id, c.title, c.tip, root.text AS system, c.created_at, c.updated_at
FROM conversation AS c LEFT JOIN message AS root ON root.id = c.root
"""

_PATH = """
WITH RECURSIVE path(id, depth) AS (
    SELECT :tip, 0
    UNION ALL
    SELECT message.parent, depth + 1 FROM path JOIN message USING (id)
    WHERE message.parent IS NOT NULL
    LIMIT (SELECT coalesce(max(rowid), 0) + 1 FROM message)  -- ends a loop, which only damage makes
)
SELECT message.* FROM path JOIN message USING (id) ORDER BY depth DESC
"""

# Every message that a conversation has passed: its tip, its turns, and all their ancestors.
_OWN_MESSAGE = """
WITH RECURSIVE own(id) AS (
    SELECT id FROM (
        SELECT tip AS id FROM conversation WHERE id = :conversation
        UNION SELECT question FROM response WHERE conversation = :conversation
        UNION SELECT answer FROM response WHERE conversation = :conversation
    )
    UNION
    SELECT message.parent FROM own JOIN message USING (id)
)
SELECT role FROM own JOIN message USING (id) WHERE id = :message
"""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation: its last message `tip` (None: nothing yet), its system message's text.

    updated_at: seconds since the epoch of the last turn begun or finished, or of an undo.
    """

    id: str
    title: str
    tip: str | None
    system: str | None
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One turn of a conversation: the user's message `question`, and the `answer` to it.

    status: "in_progress", "completed", "incomplete" or "failed". answer: None while in progress,
    and where nothing was generated. tip_before: of a regeneration, where the tip returns if
    nothing comes of it. owner: the process that runs it. principal: for whom. saved: the answer so
    far, while in progress. updated_at: the last sign of life while in progress.
    """

    id: str
    conversation: str
    question: str
    answer: str | None
    tip_before: str | None
    status: str
    reason: str | None
    error: str | None
    owner: str
    principal: str
    options: dict[str, Any]
    render_hash: str
    saved: Answer
    usage: dict[str, Any]
    timings: dict[str, Any]
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a response ended: "completed", "incomplete" or "failed", for which reason or error.

    answer: what it had generated; None: what was saved of it last, whatever that is.
    """

    status: str
    reason: str | None = None
    answer: Answer | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


# Of a response whose process is gone.
INTERRUPTED = Outcome("incomplete", "interrupted")


def select(db: Database, sql: str, **values: object) -> list[dict[str, Any]]:
    """All rows at once: a statement left half read would hold its snapshot of the file."""
    return list(db.query(sql, values))


def find_conversation(db: Database, conversation: str) -> ConversationRow:
    """The conversation of that full id; raises ConversationNotFound."""
    for row in select(db, f"{_CONVERSATION} WHERE c.id = :id", id=conversation):
        return ConversationRow(**row)
    raise ConversationNotFound(f"there is no conversation {conversation!r}")


def find_path(db: Database, tip: str) -> list[Message]:
    """From the root, or from the first message that the file still has, to `tip`."""
    rows = select(db, _PATH, tip=tip)
    return [_message(row) for row in rows]


def find_role(db: Database, conversation: str, message: str) -> str:
    """The role of a message that the conversation has passed; raises InvalidRequest."""
    for row in select(db, _OWN_MESSAGE, conversation=conversation, message=message):
        return str(row["role"])
    raise InvalidRequest(f"conversation {conversation} has no message {message!r}")


def insert_message(
    db: Database,
    *,
    parent: str | None,
    role: str,
    text: str,
    token_ids: Sequence[int] = (),
    absolute: bool = False,
    status: str = "complete",
    render_hash: str = "",
    left_out: LeftOut = NOTHING,
) -> str:
    """The id of that message, stored now or before: equal content is one row."""
    id_ = message_id(
        parent=parent,
        role=role,
        text=text,
        token_ids=token_ids,
        absolute=absolute,
        status=status,
        render_hash=render_hash,
        left_out=left_out,
    )
    row = {
        "id": id_,
        "parent": parent,
        "role": role,
        "text": text,
        "token_ids": pack_ids(token_ids),
        "absolute": absolute,
        "status": status,
        "render_hash": render_hash,
        "created_at": time.time(),
        "left_out": left_out.messages,
        "left_out_tokens": left_out.tokens,
    }
    db.table("message").insert(row, ignore=True)
    return id_


def unsound_messages(db: Database) -> Iterator[str]:
    """The ids of the messages whose content does not give their id."""
    for row in db.query("SELECT * FROM message"):
        try:
            message = _message(row)
        except StoreError:  # not even a whole number of token ids
            yield str(row["id"])
            continue
        derived = message_id(
            parent=message.parent,
            role=message.role,
            text=message.text,
            token_ids=message.token_ids,
            absolute=message.absolute,
            status=message.status,
            render_hash=message.render_hash,
            left_out=message.left_out,
        )
        if derived != message.id:
            yield message.id


def find_response(db: Database, response: str) -> ResponseRow:
    """That response; raises InvalidRequest where there is none."""
    for row in select(db, "SELECT * FROM response WHERE id = :id", id=response):
        return _response(row)
    raise InvalidRequest(f"there is no response {response!r}")


def earlier_responses(db: Database, response: ResponseRow, answer: str | None) -> list[ResponseRow]:
    """The last response of its conversation before that one, and the last that made `answer`.

    Only such as have an answer that did not fail; each once.
    """
    earlier = f"SELECT * FROM response WHERE {_ANSWERED} AND id != :id"
    last = f"{earlier} AND conversation = :conversation ORDER BY rowid DESC LIMIT 1"
    # Another conversation's, where this one was forked from it.
    of_answer = f"{earlier} AND answer = :answer"
    maker = f"{of_answer} ORDER BY conversation = :conversation DESC, rowid DESC LIMIT 1"
    values = {"id": response.id, "conversation": response.conversation, "answer": answer}
    found = [*select(db, last, **values), *select(db, maker, **values)]
    return [_response(row) for row in {row["id"]: row for row in found}.values()]


def running_responses(db: Database) -> list[ResponseRow]:
    """The responses in progress, of all conversations and processes."""
    return [_response(row) for row in select(db, f"SELECT * FROM response WHERE {RUNNING}")]


def running_response(db: Database, conversation: str) -> str | None:
    """The id of the response in progress in that conversation, if there is one."""
    running = f"SELECT id FROM response WHERE conversation = :conversation AND {RUNNING}"
    return next((row["id"] for row in select(db, running, conversation=conversation)), None)


def end_response(db: Database, row: ResponseRow, outcome: Outcome) -> str | None:
    """Store the answer, if there is one, and move the tip there from the message answered; its id.

    An answer that ended before its first token is none, unless the model itself ended it: then
    it is an empty one. Without an answer a regeneration gives the old one back.
    """
    assert row.status == IN_PROGRESS, f"response {row.id} has ended already: {row.status}"
    now, made = time.time(), outcome.answer or row.saved
    answer = None
    if made.text or made.token_ids or outcome.status == "completed":
        answer = insert_message(
            db,
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


def mark_used(db: Database, conversation: str) -> None:
    """Make it the conversation last used."""
    last = "(SELECT max(used) FROM conversation)"
    db.execute(f"UPDATE conversation SET used = 1 + {last} WHERE id = ?", [conversation])


def _message(row: dict[str, Any]) -> Message:
    left_out = LeftOut(row.pop("left_out"), row.pop("left_out_tokens"))
    try:
        unpacked = {"token_ids": unpack_ids(row["token_ids"]), "absolute": bool(row["absolute"])}
    except TypeError as error:  # NULL where none can be
        raise StoreError(f"message {row['id']} is damaged: {error}") from error
    return Message(**row | unpacked, left_out=left_out)


def _response(row: dict[str, Any]) -> ResponseRow:
    try:
        saved = Answer(row.pop("text"), unpack_ids(row.pop("token_ids")))
        parsed = {key: json.loads(row[key] or "{}") for key in ("options", "usage", "timings")}
    except (TypeError, ValueError) as error:
        raise StoreError(f"response {row['id']} is damaged: {error}") from error
    return ResponseRow(saved=saved, **row | parsed)
