"""A conversation as a JSON document: all branches, exact token ids, responses with their costs.

What is read back is the same conversation, down to the ids of its messages: these are hashes of
their content, so that a document which was changed in between is refused. Token ids are taken as
they are: read only documents of somebody you trust with the model.

Takes the open database. Knows no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn

from sqlite_utils import Database
from ulid import ULID

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import LeftOut, check_text
from radixchat.server.rows import IN_PROGRESS, ConversationRow, ResponseRow, select
from radixchat.server.rows_conversation import mark_passed
from radixchat.server.rows_message import Place, insert_message
from radixchat.server.rows_response import find_responses
from radixchat.server.rows_tree import find_passed
from radixchat.server.store_conversation import check_metadata
from radixchat.server.transcript_id import import_id

VERSION = 1
_YEAR_10000 = 253_402_300_800.0
_RESPONSE_ID = re.compile("resp_[0-9A-Z]{26}")


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """tip: its last message. root: its system message. Times in seconds since the epoch."""

    id: str
    title: str
    tip: str | None
    root: str | None
    metadata: dict[str, str]
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """A node of the tree: `message.Message` says what each field means."""

    id: str
    parent: str | None
    role: Literal["system", "user", "assistant"]
    text: str
    token_ids: tuple[int, ...]
    absolute: bool
    status: Literal["complete", "interrupted", "error"]
    render_hash: str
    left_out: LeftOut
    created_at: float


@dataclass(frozen=True, slots=True)
class SavedResponse:
    """A turn that has ended: `rows.ResponseRow` says what each field means."""

    id: str
    question: str
    answer: str | None
    status: Literal["completed", "incomplete", "failed"]
    reason: str | None
    error: str | None
    options: dict[str, Any]
    render_hash: str
    sequence: int
    usage: dict[str, Any]
    timings: dict[str, Any]
    metadata: dict[str, str]
    previous_response: str | None
    instructions: str | None
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The document. messages: each after its parent. responses: as they were begun."""

    format: Literal["radixchat conversation"]
    version: int
    conversation: SavedConversation
    messages: tuple[SavedMessage, ...]
    responses: tuple[SavedResponse, ...]


def write_json(db: Database, row: ConversationRow) -> str:
    """The document of a conversation, on one line; without a response that is running."""
    (own,) = select(db, "SELECT root FROM conversation WHERE id = :id", id=row.id)
    conversation = SavedConversation(
        id=row.id,
        title=row.title,
        tip=row.tip,
        root=own["root"],
        metadata=row.metadata,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
    names = SavedMessage.__dataclass_fields__
    passed = find_passed(db, row.id, row.principal)
    messages = tuple(SavedMessage(**{name: getattr(m, name) for name in names}) for m in passed)
    ended = (r for r in find_responses(db, row.id) if r.status != IN_PROGRESS)
    document = Transcript(
        "radixchat conversation", VERSION, conversation, messages, tuple(map(_saved, ended))
    )
    return json.dumps(asdict(document), ensure_ascii=False)


def read_json(db: Database, principal: str, text: str) -> str | None:
    """Store the conversation of a document as the principal's; its id. None: he has it already.

    It has the document's ids where these are free. Raises InvalidRequest for what is no such
    document or was changed.
    """
    saved = _parse(text)
    conversation, is_here = import_id(db, principal, saved.conversation.id)
    if is_here:
        return None
    _insert_messages(db, principal, saved.messages)
    _require_whole(saved)
    _insert_conversation(db, principal, conversation, saved.conversation)
    for end in {m.id for m in saved.messages} - {m.parent for m in saved.messages}:
        mark_passed(db, conversation, end)
    for response in saved.responses:
        _insert_response(db, principal, conversation, response)
    return conversation


def _saved(row: ResponseRow) -> SavedResponse:
    return SavedResponse(
        **{name: getattr(row, name) for name in SavedResponse.__dataclass_fields__}
    )


def _parse(text: str) -> Transcript:
    """The document as values. Slow to import, so that only who reads one waits for it."""
    from pydantic import TypeAdapter, ValidationError

    check_text("the document", text)
    try:
        saved = TypeAdapter(Transcript).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        _refuse(f"{where}: {first['msg']}" if where else first["msg"])
    if saved.version != VERSION:
        _refuse(f"it is of version {saved.version}, this radixchat knows {VERSION}")
    conversation = saved.conversation
    times = [conversation.created_at, conversation.updated_at]
    times += [message.created_at for message in saved.messages]
    times += [
        at for response in saved.responses for at in (response.created_at, response.updated_at)
    ]
    if not all(0 <= at < _YEAR_10000 for at in times):
        _refuse("a time is none")
    numbers = [response.sequence for response in saved.responses]
    for message in saved.messages:
        numbers += [message.left_out.messages, message.left_out.tokens]
    if not all(0 <= number < 2**31 for number in numbers):
        _refuse("a number is out of range")
    return saved


def _insert_messages(db: Database, principal: str, messages: Sequence[SavedMessage]) -> None:
    place, known = Place(principal, searchable=True), set[str]()
    for message in messages:
        if message.parent is not None and message.parent not in known:
            _refuse(f"message {message.id} comes before its parent {message.parent!r}")
        if message.role == "system" and message.parent is not None:
            _refuse(f"message {message.id} is a system message within a conversation")
        id_ = insert_message(
            db,
            place,
            parent=message.parent,
            role=message.role,
            text=message.text,
            token_ids=message.token_ids,
            absolute=message.absolute,
            status=message.status,
            render_hash=message.render_hash,
            left_out=message.left_out,
            created_at=message.created_at,
        )
        if id_ != message.id:
            _refuse(f"message {message.id} does not match its content: it was changed")
        known.add(id_)


def _require_whole(saved: Transcript) -> None:
    """All that refers to a message, or to another, is right."""
    messages = {message.id: message for message in saved.messages}
    conversation = saved.conversation
    check_metadata(conversation.metadata)
    top = conversation.tip
    while top is not None and top in messages and messages[top].parent is not None:
        top = messages[top].parent
    if top is not None and top not in messages:
        _refuse(f"there is no message {conversation.tip!r}, its last")
    system = top if top is not None and messages[top].role == "system" else None
    if conversation.root != system:
        _refuse(f"its system message is {system!r}, not {conversation.root!r}")
    for response in saved.responses:
        check_metadata(response.metadata)
        if response.question not in messages:
            _refuse(f"there is no message {response.question!r}, which {response.id} answers")
        answer = messages.get(response.answer or "")
        if response.answer is not None and (answer is None or answer.parent != response.question):
            _refuse(f"message {response.answer!r} is no answer to that of {response.id}")


def _insert_conversation(db: Database, principal: str, id_: str, saved: SavedConversation) -> None:
    row = asdict(saved) | {"id": id_, "metadata": json.dumps(saved.metadata)}
    db.table("conversation").insert(row | {"principal": principal, "used": 0})


def _insert_response(db: Database, principal: str, conversation: str, saved: SavedResponse) -> None:
    is_free = not select(db, "SELECT 1 FROM response WHERE id = :id", id=saved.id)
    objects = ("options", "usage", "timings", "metadata")
    row = asdict(saved) | {
        "id": saved.id if is_free and _RESPONSE_ID.fullmatch(saved.id) else f"resp_{ULID()}",
        "conversation": conversation,
        "principal": principal,
        "owner": "imported",
        "text": "",
        "token_ids": b"",
        **{name: json.dumps(getattr(saved, name)) for name in objects},
    }
    db.table("response").insert(row)


def _refuse(why: str) -> NoReturn:
    raise InvalidRequest(f"this is not a conversation that radixchat has exported: {why}")
