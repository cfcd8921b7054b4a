"""All that a conversation has passed: its tip, its turns, and all their ancestors, as a tree.

Takes the open database. Knows not what is shown of it.
"""

from __future__ import annotations

from collections import defaultdict

from sqlite_utils import Database

from radixchat.server.rows import select
from radixchat.server.views import TreeMessage

PASSED = """
WITH RECURSIVE passed(id) AS (
    SELECT id FROM (
        SELECT tip AS id FROM conversation WHERE id = :conversation
        UNION SELECT root FROM conversation WHERE id = :conversation
        UNION SELECT question FROM response WHERE conversation = :conversation
        UNION SELECT answer FROM response WHERE conversation = :conversation
    ) WHERE id IS NOT NULL
    UNION
    SELECT message.parent FROM passed JOIN message USING (id) WHERE message.parent IS NOT NULL
)
"""

_TREE = f"""
{PASSED}
SELECT id, parent, role, text, status, holding.created_at
FROM passed JOIN message USING (id)
JOIN holding ON holding.message = id AND holding.principal = :principal
ORDER BY holding.number
"""

_ANSWERS = """
SELECT id, answer FROM response WHERE conversation = :conversation AND answer IS NOT NULL
ORDER BY rowid
"""


def find_tree(
    db: Database, conversation: str, principal: str, tip: str | None
) -> list[TreeMessage]:
    """Each message once, after its parent; of siblings the earlier first."""
    found = {
        row["id"]: row for row in select(db, _TREE, conversation=conversation, principal=principal)
    }
    on_path, message = set(), tip
    while message in found and message not in on_path:
        on_path.add(message)
        message = found[message]["parent"]
    made: dict[str, list[str]] = defaultdict(list)
    for row in select(db, _ANSWERS, conversation=conversation):
        made[row["answer"]].append(row["id"])
    return [
        TreeMessage(**row, on_path=id_ in on_path, responses=tuple(made[id_]))
        for id_, row in found.items()
    ]
