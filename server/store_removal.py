"""What is deleted for good: a conversation, a response, and the messages that nobody needs then.

A principal's message goes when none of his conversations or responses is at it, and nothing that
he still needs follows it; its row goes when nobody else holds it either. Takes the open database,
in the caller's write transaction. Knows no cache: it says which exact tokens are to be forgotten.

    S ── Q ── A ── Q2 ── A2      a second conversation is at B: deleting the first forgets
          └── B                  A … A2, whose tokens begin to differ from what is kept at A
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlite_utils import Database

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import ConversationLocked
from radixchat.server.conversation import Conversation
from radixchat.server.rows import RUNNING, ConversationRow, ForgottenPath, ResponseRow, select
from radixchat.server.rows_message import find_path
from radixchat.server.rows_tree import TREE
from radixchat.server.store_conversation import LOCKED_RETRY_MS, move
from radixchat.server.store_words import searchable_text

# Whether a message of the principal is one that a conversation or a response of his needs.
_NEEDED = f"""(
    EXISTS (SELECT 1 FROM conversation WHERE tip = m.id AND principal = :principal)
    OR EXISTS (SELECT 1 FROM conversation WHERE root = m.id AND principal = :principal)
    OR EXISTS (SELECT 1 FROM response WHERE question = m.id AND principal = :principal)
    OR EXISTS (SELECT 1 FROM response WHERE answer = m.id AND principal = :principal)
    OR EXISTS (
        SELECT 1 FROM passed JOIN conversation ON conversation.id = passed.conversation
        WHERE message = m.id AND principal = :principal
    )
    OR EXISTS (SELECT 1 FROM response WHERE {RUNNING} AND tip_before = m.id)
)"""

_CHILDREN = f"""
SELECT m.id, {_NEEDED} AS needed FROM message AS m
JOIN holding ON holding.message = m.id AND holding.principal = :principal
WHERE m.parent = :id
"""


@dataclass(frozen=True, slots=True)
class Unkept:
    """A conversation that may be left over. owner: the process that used it; None: any."""

    id: str
    principal: str
    owner: str | None
    updated_at: float


@dataclass(frozen=True, slots=True)
class Removed:
    """A conversation that is not there any more; paths: the tokens that only it had."""

    id: str
    principal: str
    paths: list[ForgottenPath]


def find_unkept(db: Database) -> list[Unkept]:
    """What was not to be kept, and what was made for a response that has not begun."""
    columns = "SELECT id, principal, owner, updated_at FROM conversation"
    unused = f"{columns} WHERE used = 0 AND NOT listed AND kept"
    found = select(db, f"{columns} WHERE kept = 0 UNION ALL {unused}")
    return [Unkept(**row) for row in found]


def delete_conversation(db: Database, id_: str, principal: str) -> list[ForgottenPath]:
    """Delete it with its responses, whatever their state, and siblings of them not yet begun."""
    made = "SELECT id FROM conversation WHERE sibling_of = :conversation AND used = 0"
    for unused in select(db, made, conversation=id_):
        delete_conversation(db, unused["id"], principal)  # needs nothing that this one does not
    tree = select(db, f"{TREE} SELECT id FROM tree", conversation=id_)
    own = "response IN (SELECT id FROM response WHERE conversation = ?)"
    db.execute(f"DELETE FROM idempotency WHERE {own}", [id_])
    db.execute("DELETE FROM response WHERE conversation = ?", [id_])
    db.execute("DELETE FROM passed WHERE conversation = ?", [id_])
    db.execute("DELETE FROM conversation WHERE id = ?", [id_])
    return forget(db, principal, [found["id"] for found in tree])


def delete_response(
    db: Database, row: ResponseRow, conversation: ConversationRow
) -> list[ForgottenPath]:
    """Delete it, with the end of its conversation where that is not listed, or all of that.

    What a listed conversation's path has stays.
    Raises ConversationLocked where it is running.
    """
    if conversation.running == row.id:
        raise ConversationLocked(f"response {row.id} is running: cancel it first", LOCKED_RETRY_MS)
    if not conversation.listed:
        others = """
        SELECT question, answer FROM response WHERE conversation = :conversation AND id != :id
        ORDER BY rowid DESC LIMIT 1
        """
        rest = select(db, others, conversation=row.conversation, id=row.id)
        if not rest:
            return delete_conversation(db, conversation.id, row.principal)
        if conversation.tip in (row.answer, row.question):
            _go_back(db, conversation, rest[0]["answer"] or rest[0]["question"])
    db.execute("DELETE FROM idempotency WHERE response = ?", [row.id])
    db.execute("DELETE FROM response WHERE id = ?", [row.id])
    ends = [end for end in (row.answer, row.question) if end is not None]
    return forget(db, row.principal, [m.id for m in find_path(db, ends[0], row.principal)])


def _go_back(db: Database, conversation: ConversationRow, tip: str) -> None:
    """Move the tip to where it was, as if it had never been further on."""
    assert conversation.tip is not None, "the tip is at a response"
    stays = {message.id for message in find_path(db, tip, conversation.principal)}
    for message in find_path(db, conversation.tip, conversation.principal):
        if message.id not in stays:
            here = "conversation = ? AND message = ?"
            db.execute(f"DELETE FROM passed WHERE {here}", [conversation.id, message.id])
    move(db, conversation.id, tip)


def forget(db: Database, principal: str, messages: Iterable[str]) -> list[ForgottenPath]:
    """Delete those of the principal's messages, and of what follows them, that he does not need.

    Returns the paths of exact tokens that are gone with them.
    """
    dead = _unneeded(db, principal, messages)
    paths = _forgotten_paths(db, principal, dead)
    held = """
    SELECT number, searchable, text FROM holding JOIN message ON message.id = message
    WHERE message = :message AND principal = :principal
    """
    for message in dead:  # children before parents
        (row,) = select(db, held, message=message, principal=principal)
        if row["searchable"]:
            words = [row["number"], searchable_text(row["text"])]
            take_out = "INSERT INTO message_fts(message_fts, rowid, text) VALUES ('delete', ?, ?)"
            db.execute(take_out, words)
        db.execute("DELETE FROM holding WHERE number = ?", [row["number"]])
        unheld = "id = ? AND NOT EXISTS (SELECT 1 FROM holding WHERE message = message.id)"
        db.execute(f"DELETE FROM message WHERE {unheld}", [message])
    return paths


def _unneeded(db: Database, principal: str, messages: Iterable[str]) -> list[str]:
    """Those messages, and what follows them, that the principal does not need; children first."""
    is_needed: dict[str, bool] = {}
    children: dict[str, list[str]] = {}
    needed = f"SELECT {_NEEDED} AS needed FROM message AS m WHERE id = :id"
    for start in messages:
        if start in is_needed:
            continue
        (row,) = select(db, needed, id=start, principal=principal)
        if row["needed"]:
            is_needed[start] = True
            continue
        stack = [start]
        while stack:
            message = stack[-1]
            if message in children:  # all of them are known by now
                is_needed[message] = any(is_needed[child] for child in children[message])
                stack.pop()
                continue
            found = select(db, _CHILDREN, id=message, principal=principal)
            children[message] = [child["id"] for child in found]
            is_needed |= {child["id"]: True for child in found if child["needed"]}
            stack += [child for child in children[message] if child not in is_needed]
    return [message for message, keep in is_needed.items() if not keep]


def _forgotten_paths(db: Database, principal: str, dead: list[str]) -> list[ForgottenPath]:
    """One for each dead message with ids that no other dead message goes on from."""
    about = "SELECT parent, absolute, token_ids != x'' AS has_ids FROM message WHERE id = :id"
    rows = {message: select(db, about, id=message)[0] for message in dead}
    counted = {id_: row for id_, row in rows.items() if row["has_ids"]}
    extended = {row["parent"] for row in counted.values() if not row["absolute"]}
    paths = []
    for end in (message for message in counted if message not in extended):
        path = find_path(db, end, principal)
        ids = Conversation("", tuple(path)).token_ids
        kept = Conversation("", tuple(m for m in path if m.id not in rows)).token_ids
        paths.append(ForgottenPath(ids, common_prefix(ids, kept)))
    return list(dict.fromkeys(paths))
