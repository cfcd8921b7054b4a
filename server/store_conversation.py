"""What may be done to a conversation: made, forked, added to, its tip moved by compare-and-swap.

Every function takes the open database and is a part of the caller's write transaction; a refusal
has changed nothing. Knows no owner and no engine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from sqlite_utils import Database
from ulid import ULID

from radixchat.engine.errors import ConversationLocked, InvalidRequest
from radixchat.server.message import Message, NewMessage, check_text
from radixchat.server.rows import ConversationRow, select
from radixchat.server.rows_conversation import find_conversation, mark_passed
from radixchat.server.rows_message import (
    Place,
    find_path,
    find_root,
    holds,
    insert_message,
    make_searchable,
)
from radixchat.server.rows_tree import has_passed

# A running answer changes what is stored every 0.5 s; sooner there is nothing new to see.
LOCKED_RETRY_MS = 500
ROLES = ("system", "user", "assistant")


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raises InvalidRequest for what is not text, or not valid Unicode."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(f"metadata holds text only, not {key!r}: {value!r}")
        check_text("metadata", key)
        check_text(f"metadata {key!r}", value)


def create(
    db: Database,
    principal: str,
    *,
    system: str | None,
    tip: str | None,
    title: str,
    metadata: Mapping[str, str],
    listed: bool,
    owner: str | None,
    sibling_of: str | None = None,
) -> str:
    """A new conversation, at its system message or at `tip`; its id.

    owner: the process with which it is forgotten; None: it is kept.
    """
    id_, now, root = f"conv_{ULID()}", time.time(), None
    place = Place(principal, searchable=listed and owner is None)
    if tip is not None:
        require_held(db, principal, tip)
        if system is not None:
            tip = reroot(db, principal, tip, system)
            assert tip is not None, "there is at least the system message"
        root, _ = find_root(db, tip)
        if place.searchable:
            make_searchable(db, principal, tip)
    elif system is not None:
        tip = root = insert_message(db, place, parent=None, role="system", text=system)
    row = {
        "id": id_,
        "principal": principal,
        "title": title,
        "root": root,
        "tip": tip,
        "used": 0,
        "listed": int(listed),
        "kept": int(owner is None),
        "metadata": json.dumps(dict(metadata)),
        "owner": owner,
        "sibling_of": sibling_of,
        "created_at": now,
        "updated_at": now,
    }
    db.table("conversation").insert(row)
    if tip is not None:
        mark_passed(db, id_, tip)
    return id_


def graft(db: Database, row: ConversationRow, messages: Sequence[tuple[str, str]]) -> str:
    """Add messages at the tip, without ids, and move it to the last; its id.

    Raises InvalidRequest where there is none, or a system message is not the conversation's first.
    """
    if not messages:
        raise InvalidRequest("there is no message to add")
    place = Place(row.principal, searchable=row.listed and row.kept)
    tip = row.tip
    for role, text in messages:
        if role not in ROLES:
            raise InvalidRequest(f"a message's role is one of {', '.join(ROLES)}, not {role!r}")
        if role == "system" and tip is not None:
            raise InvalidRequest("a system message can only be the first of a conversation")
        check_text("the message", text)
        tip = insert_message(db, place, parent=tip, role=role, text=text)
        if role == "system":
            db.table("conversation").update(row.id, {"root": tip})
    assert tip is not None
    move(db, row.id, tip)
    mark_passed(db, row.id, tip)
    return tip


def reroot(db: Database, principal: str, message: str | None, system: str | None) -> str | None:
    """Copy the path to a message, as text only, under another system message; the copy's last."""
    place, tip = Place(principal, searchable=False), None
    if system is not None:
        tip = insert_message(db, place, parent=None, role="system", text=system)
    for old in [] if message is None else require_path(db, principal, message):
        if old.role != "system":
            tip = insert_message(
                db, place, parent=tip, role=old.role, text=old.text, status=old.status
            )
    return tip


def set_system(db: Database, row: ConversationRow, system: str | None) -> None:
    """Move the conversation to a copy of its path under another system message."""
    if row.tip is not None:
        mark_passed(db, row.id, row.tip)
    tip = reroot(db, row.principal, row.tip, system)
    root = None if tip is None else find_root(db, tip)[0]
    db.table("conversation").update(row.id, {"root": root})
    if tip is not None:
        mark_passed(db, row.id, tip)
        if row.listed and row.kept:
            make_searchable(db, row.principal, tip)
    move(db, row.id, tip)


def adopt(db: Database, made: str) -> bool:
    """Give the responses of a sibling's own conversation to the one that it is a sibling in.

    Returns whether it was such: then it can go, also where the other one was deleted meanwhile.
    """
    (own,) = select(db, "SELECT sibling_of FROM conversation WHERE id = :id", id=made)
    if own["sibling_of"] is None:
        return False
    there = "SELECT 1 FROM conversation WHERE id = :id"
    if select(db, there, id=own["sibling_of"]):
        change = "UPDATE response SET conversation = ? WHERE conversation = ?"
        db.execute(change, [own["sibling_of"], made])
    return True


def move(db: Database, conversation: str, tip: str | None) -> None:
    """Make it the last message, whatever was."""
    db.table("conversation").update(conversation, {"tip": tip, "updated_at": time.time()})


def move_to(db: Database, row: ConversationRow, tip: str | None) -> None:
    """Make one of its principal's messages the last; raises InvalidRequest where that cannot be.

    It may also be one that the conversation had under another system message.
    """
    if tip is not None and not _is_below(db, row, tip) and has_passed(db, row.id, tip):
        db.table("conversation").update(row.id, {"root": find_root(db, tip)[0]})
    require_place(db, row, tip)
    if tip is not None:
        mark_passed(db, row.id, tip)
        if row.listed and row.kept:
            make_searchable(db, row.principal, tip)
    move(db, row.id, tip)


def require_tip(
    db: Database, conversation: str, principal: str, expected: str | None
) -> ConversationRow:
    """The conversation, with that tip and nothing running; raises ConversationLocked."""
    row = find_conversation(db, conversation, principal)
    require_idle(row)
    if row.tip != expected:
        raise ConversationLocked(
            f"conversation {conversation} has moved on from {expected} to {row.tip}: read it again",
            retry_after_ms=0,
        )
    return row


def require_idle(row: ConversationRow) -> None:
    """Raises ConversationLocked where a response of the conversation is in progress."""
    if row.running is not None:
        raise ConversationLocked(
            f"conversation {row.id} is being answered already ({row.running})", LOCKED_RETRY_MS
        )


def require_place(db: Database, row: ConversationRow, message: str | None) -> str | None:
    """The role of a message of the principal under the conversation's own system message.

    None stands before the first message. Raises InvalidRequest.
    """
    if message is None:
        if row.system is not None:
            raise InvalidRequest(f"conversation {row.id} begins with its system message")
        return None
    if _is_below(db, row, message):
        return find_root(db, message)[1]
    raise InvalidRequest(f"conversation {row.id} has no message {message!r}")


def _is_below(db: Database, row: ConversationRow, message: str) -> bool:
    (own,) = select(db, "SELECT root FROM conversation WHERE id = :id", id=row.id)
    return holds(db, row.principal, message) and find_root(db, message)[0] == own["root"]


def require_held(db: Database, principal: str, message: str) -> None:
    """Raises InvalidRequest where the principal has no such message."""
    if not holds(db, principal, message):
        raise InvalidRequest(f"there is no message {message!r}")


def require_path(db: Database, principal: str, message: str) -> list[Message]:
    """The path to a message; raises InvalidRequest where the principal has no such message."""
    require_held(db, principal, message)
    return find_path(db, message, principal)


def find_question(
    db: Database,
    row: ConversationRow,
    parent: str | None,
    user: NewMessage | None,
    render_hash: str,
    *,
    generate: bool,
) -> str:
    """The message to answer: the user's new one under `parent`, or `parent` itself.

    generate: an answer is asked for, which only a user's message can have.
    """
    if user is None:
        role = None if parent is None else require_place(db, row, parent)
        if parent is None or (generate and role != "user"):
            raise InvalidRequest(f"message {parent!r} is not a user's: nothing to answer")
        return parent
    if parent != row.tip:  # at the tip there is nothing to look up
        require_place(db, row, parent)
    return insert_message(
        db,
        Place(row.principal, searchable=row.listed and row.kept),
        parent=parent,
        role="user",
        text=user.text,
        token_ids=user.token_ids,
        absolute=user.absolute,
        render_hash=render_hash,
        left_out=user.left_out,
    )
