"""How a response is begun, with its question and its client's event, and how it is gone on with.

Takes the open database, in the caller's write transaction. Knows an owner by its name only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database
from ulid import ULID

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import Answer, NewMessage, pack_ids
from radixchat.server.rows import IN_PROGRESS, BegunResponse, Outcome, ResponseRow
from radixchat.server.rows_conversation import find_conversation, mark_used
from radixchat.server.rows_message import find_path
from radixchat.server.rows_response import end_response, find_begun, find_response, insert_event
from radixchat.server.store_conversation import (
    adopt,
    find_question,
    graft,
    move,
    require_idle,
    require_tip,
)
from radixchat.server.store_removal import delete_conversation, forget


@dataclass(frozen=True, slots=True)
class NewResponse:
    """A response before it is stored: Store.begin_response says what each field means."""

    conversation: str
    principal: str
    owner: str
    expected_tip: str | None
    added: Sequence[tuple[str, str]]
    parent: str | None
    user: NewMessage | None
    options: Mapping[str, Any]
    render_hash: str
    previous_response: str | None
    instructions: str | None
    metadata: Mapping[str, str]
    event: tuple[str, str] | None

    @property
    def generates(self) -> bool:
        """Whether an answer is asked for."""
        return self.options.get("generate") is not False


def begin(db: Database, new: NewResponse) -> BegunResponse:
    """Store it, or find what its event has begun before. Raises as Store.begin_response does."""
    if new.event is not None:
        begun = find_begun(db, *new.event, new.principal)
        if begun is not None:
            return begun
    row = require_tip(db, new.conversation, new.principal, new.expected_tip)
    if new.added:
        graft(db, row, new.added)
        row = find_conversation(db, row.id, row.principal)
    question = find_question(db, row, new.parent, new.user, new.render_hash, generate=new.generates)
    begun = BegunResponse(f"resp_{ULID()}", False, row.id, question, time.time())
    response = {
        "id": begun.id,
        "conversation": row.id,
        "question": question,
        "tip_before": row.tip if new.user is None else None,
        "status": IN_PROGRESS,
        "owner": new.owner,
        "options": json.dumps(dict(new.options)),
        "render_hash": new.render_hash,
        "principal": new.principal,
        "previous_response": new.previous_response,
        "instructions": new.instructions,
        "metadata": json.dumps(dict(new.metadata)),
        "text": "",
        "token_ids": b"",
        "created_at": begun.created_at,
        "updated_at": begun.created_at,
    }
    db.table("response").insert(response)
    move(db, row.id, question)
    mark_used(db, row.id)
    if new.event is not None:
        insert_event(db, *new.event, new.principal, begun.id)
    return begun


def end(db: Database, row: ResponseRow, outcome: Outcome) -> str | None:
    """Store how a response ended; rows_response.end_response says how. Its answer's id.

    One that was made beside a conversation's belongs to that now, or goes where that has gone.
    """
    answer = end_response(db, row, outcome)
    if adopt(db, row.conversation):
        delete_conversation(db, row.conversation, row.principal)
    return answer


def reopen(db: Database, row: ResponseRow, owner: str) -> ResponseRow:
    """Let a response that its server's end cut short run again, with what it had as saved.

    The tip returns to the question where nothing was said since. Raises as
    Store.reopen_response does.
    """
    conversation = find_conversation(db, row.conversation, row.principal)
    require_idle(conversation)
    if (row.status, row.reason) != ("incomplete", "server_shutdown"):
        how = row.status + (f" ({row.reason})" if row.reason else "")
        raise InvalidRequest(
            f"response {row.id} is {how}; only what a server's end cut short can be continued"
        )
    saved = Answer("", ())
    if row.answer is not None:
        answer = find_path(db, row.answer, row.principal)[-1]
        saved = Answer(answer.text, answer.token_ids)
    ended_at = row.answer or row.tip_before
    if ended_at is not None and conversation.tip == ended_at:
        move(db, row.conversation, row.question)
    changes = {
        "status": IN_PROGRESS,
        "reason": None,
        "answer": None,
        "owner": owner,
        "text": saved.text,
        "token_ids": pack_ids(saved.token_ids),
        "updated_at": time.time(),
    }
    db.table("response").update(row.id, changes)
    mark_used(db, row.conversation)
    if row.answer is not None:
        forget(db, row.principal, [row.answer])
    return find_response(db, row.id)
