"""How a response is begun: with its question, its place in the conversation, its client's event.

Takes the open database, in the caller's write transaction. Knows an owner by its name only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database
from ulid import ULID

from radixchat.server.message import NewMessage
from radixchat.server.rows import IN_PROGRESS, BegunResponse
from radixchat.server.rows_conversation import mark_used
from radixchat.server.rows_response import find_begun, insert_event
from radixchat.server.store_conversation import find_question, move, require_tip


@dataclass(frozen=True, slots=True)
class NewResponse:
    """A response before it is stored: Store.begin_response says what each field means."""

    conversation: str
    principal: str
    owner: str
    expected_tip: str | None
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
