"""All that a conversation has passed: its tip, its turns, where else it was, and what led there.

Takes the open database. Knows not what is shown of it.
"""

from __future__ import annotations

from collections import defaultdict

from sqlite_utils import Database

from radixchat.server.message import Message
from radixchat.server.rows import select
from radixchat.server.rows_message import COLUMNS, to_message
from radixchat.server.views import TreeMessage

TREE = """
WITH RECURSIVE tree(id) AS (
    SELECT id FROM (
        SELECT tip AS id FROM conversation WHERE id = :conversation
        UNION SELECT root FROM conversation WHERE id = :conversation
        UNION SELECT message FROM passed WHERE conversation = :conversation
        UNION SELECT question FROM response WHERE conversation = :conversation
        UNION SELECT answer FROM response WHERE conversation = :conversation
    ) WHERE id IS NOT NULL
    UNION
    SELECT message.parent FROM tree JOIN message USING (id) WHERE message.parent IS NOT NULL
)
"""

_MESSAGES = f"""
{TREE}
SELECT {COLUMNS}, holding.created_at
FROM tree JOIN message USING (id)
JOIN holding ON holding.message = id AND holding.principal = :principal
ORDER BY holding.number  -- a parent is held before its child is
"""

_ANSWERS = """
SELECT id, answer FROM response WHERE conversation = :conversation AND answer IS NOT NULL
ORDER BY rowid
"""


def find_passed(db: Database, conversation: str, principal: str) -> list[Message]:
    """Each message once, after its parent; of siblings the earlier first."""
    found = select(db, _MESSAGES, conversation=conversation, principal=principal)
    return [to_message(row) for row in found]


def has_passed(db: Database, conversation: str, message: str) -> bool:
    """Whether the conversation has been at that message."""
    sql = f"{TREE} SELECT 1 FROM tree WHERE id = :message"
    return bool(select(db, sql, conversation=conversation, message=message))


def find_tree(
    db: Database, conversation: str, principal: str, tip: str | None
) -> list[TreeMessage]:
    """The same as it is shown."""
    found = {message.id: message for message in find_passed(db, conversation, principal)}
    on_path, at = set[str](), tip
    while at in found and at not in on_path:
        on_path.add(at)
        at = found[at].parent
    made: dict[str, list[str]] = defaultdict(list)
    for row in select(db, _ANSWERS, conversation=conversation):
        made[row["answer"]].append(row["id"])
    return [
        TreeMessage(
            id=message.id,
            parent=message.parent,
            role=message.role,
            text=message.text,
            status=message.status,
            on_path=message.id in on_path,
            responses=tuple(made[message.id]),
            created_at=message.created_at,
        )
        for message in found.values()
    ]
