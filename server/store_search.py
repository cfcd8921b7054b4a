"""Full-text search in a principal's listed conversations. Takes the open database.

Ranks by SQLite's bm25, and shows for each message the conversation that is at it, or was last.
"""

from __future__ import annotations

from typing import Any

from sqlite_utils import Database

from radixchat.server.rows import select
from radixchat.server.store_snippet import snippet
from radixchat.server.store_words import match_expression, search_terms
from radixchat.server.views import MAX_FOUND, SearchHit, check_limit

_MATCHING = """
SELECT message.id, role, message.text
FROM message_fts JOIN holding ON number = message_fts.rowid JOIN message ON message.id = message
WHERE message_fts MATCH :words AND principal = :principal
ORDER BY rank, number DESC LIMIT :limit OFFSET :offset
"""

# A message is passed by the conversations that are, or were, at something that follows it.
_CONVERSATION = """
WITH RECURSIVE below(id) AS (
    SELECT :message
    UNION
    SELECT message.id FROM below JOIN message ON parent = below.id
    JOIN holding ON holding.message = message.id AND principal = :principal
    LIMIT 5000  -- level by level: below a system message there may be everything
), passing(id, is_at) AS (
    SELECT conversation.id, 1 FROM below JOIN conversation ON tip = below.id
    UNION SELECT conversation, 0 FROM below JOIN response ON question = below.id
    UNION SELECT conversation, 0 FROM below JOIN response ON answer = below.id
)
SELECT conversation.id, title FROM passing JOIN conversation USING (id)
WHERE principal = :principal AND listed AND kept
ORDER BY is_at DESC, used DESC LIMIT 1
"""


def search(db: Database, principal: str, query: str, limit: int) -> list[SearchHit]:
    """At most `limit` messages that have all words of the query; of an empty query, none."""
    check_limit(limit, MAX_FOUND)
    terms = search_terms(query)
    hits: list[SearchHit] = []
    offset = 0
    while terms and len(hits) < limit:
        rows = _matching(db, terms, principal, limit, offset)
        hits += [hit for row in rows if (hit := _hit(db, row, principal, terms)) is not None]
        offset += limit
        if len(rows) < limit:
            break
    return hits[:limit]


def _matching(
    db: Database, terms: list[str], principal: str, limit: int, offset: int
) -> list[dict[str, Any]]:
    values = {"words": match_expression(terms), "principal": principal}
    return select(db, _MATCHING, **values, limit=limit, offset=offset)


def _hit(db: Database, row: dict[str, Any], principal: str, terms: list[str]) -> SearchHit | None:
    """None of a message that only a conversation which lists do not show has passed."""
    for found in select(db, _CONVERSATION, message=row["id"], principal=principal):
        return SearchHit(
            conversation=found["id"],
            title=found["title"],
            message=row["id"],
            role=row["role"],
            snippet=snippet(row["text"], terms),
        )
    return None
