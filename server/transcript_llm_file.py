"""Conversations as a `logs.db` that `llm` opens, continues and searches.

Written as one of its earlier releases did (of December 2024); a later one brings it up to date when
it opens it, by the names of the steps that were done. Knows no store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from ulid import ULID

from radixchat.server.message import Message
from radixchat.server.new_file import new_file
from radixchat.server.rows import ConversationRow, ResponseRow

MODEL = "radixchat"
_DONE = (
    "m001_initial",
    "m002_id_primary_key",
    "m003_chat_id_foreign_key",
    "m004_column_order",
    "m004_drop_provider",
    "m005_debug",
    "m006_new_logs_table",
    "m007_finish_logs_table",
    "m008_reply_to_id_foreign_key",
    "m008_fix_column_order_in_logs",
    "m009_delete_logs_table_if_empty",
    "m010_create_new_log_tables",
    "m011_fts_for_responses",
    "m012_attachments_tables",
    "m013_usage",
)


@dataclass(frozen=True, slots=True)
class PathWithResponses:
    """A conversation, the messages to its tip, and which response made which of them."""

    row: ConversationRow
    messages: Sequence[Message]
    responses: Mapping[str, ResponseRow]


def write_logs(path: Path, conversations: Iterable[PathWithResponses]) -> int:
    """Write a new file with their paths, private; the number of turns. Raises StoreError."""
    count = 0
    with new_file(path) as unfinished:
        db = Database(unfinished, execute_plugins=False)
        try:
            with db.atomic():
                _create(db)
                for conversation in conversations:
                    count += _insert(db, conversation)
            db.table("responses").enable_fts(["prompt", "response"], create_triggers=True)
        finally:
            db.close()
    return count


def _create(db: Database) -> None:
    now = str(datetime.now(UTC))
    db.table("_llm_migrations").create({"name": str, "applied_at": str}, pk="name")
    db.table("_llm_migrations").insert_all({"name": n, "applied_at": now} for n in _DONE)
    db.table("conversations").create({"id": str, "name": str, "model": str}, pk="id")
    db.table("responses").create(
        {
            "id": str,
            "model": str,
            "prompt": str,
            "system": str,
            "prompt_json": str,
            "options_json": str,
            "response": str,
            "response_json": str,
            "conversation_id": str,
            "duration_ms": int,
            "datetime_utc": str,
            "input_tokens": int,
            "output_tokens": int,
            "token_details": str,
        },
        pk="id",
        foreign_keys=[("conversation_id", "conversations", "id")],
    )
    attachment = {"id": str, "type": str, "path": str, "url": str, "content": bytes}
    db.table("attachments").create(attachment, pk="id")
    db.table("prompt_attachments").create(
        {"response_id": str, "attachment_id": str, "order": int},
        pk=("response_id", "attachment_id"),
        foreign_keys=[
            ("response_id", "responses", "id"),
            ("attachment_id", "attachments", "id"),
        ],
    )


def _insert(db: Database, conversation: PathWithResponses) -> int:
    """One row for each question with its answer; llm goes by the order of their ids."""
    row, milliseconds, count = conversation.row, 0, 0
    id_ = row.id.removeprefix("conv_").lower()
    name = row.title or next((m.text for m in conversation.messages if m.role == "user"), "")
    named = {"id": id_, "name": " ".join(name.split())[:100], "model": MODEL}
    db.table("conversations").insert(named)
    system = row.system
    for question, answer in _pairs(conversation.messages):
        first = question or answer
        assert first is not None, "a pair has one of the two"
        milliseconds = max(milliseconds + 1, int(first.created_at * 1000))
        made = None if answer is None else conversation.responses.get(answer.id)
        turn = {
            "id": str(ULID.from_timestamp(milliseconds)).lower(),
            "model": MODEL,
            "prompt": question.text if question else "",
            "system": system,
            "options_json": "{}",
            "response": answer.text if answer else "",
            "conversation_id": id_,
            "datetime_utc": datetime.fromtimestamp(first.created_at, UTC).isoformat(),
        }
        db.table("responses").insert(turn | _costs(made))
        system, count = None, count + 1
    return count


def _costs(made: ResponseRow | None) -> dict[str, Any]:
    """What llm keeps of a response beside its text."""
    if made is None:
        return {}
    cached = made.usage.get("input_tokens_details", {}).get("cached_tokens")
    return {
        "options_json": json.dumps({k: v for k, v in made.options.items() if v is not None}),
        "duration_ms": int((made.updated_at - made.created_at) * 1000),
        "input_tokens": made.usage.get("input_tokens"),
        "output_tokens": made.usage.get("output_tokens"),
        "token_details": json.dumps({"cached_tokens": cached}) if cached else None,
    }


def _pairs(messages: Sequence[Message]) -> list[tuple[Message | None, Message | None]]:
    """Questions with the answers that follow them; either may stand alone."""
    pairs: list[tuple[Message | None, Message | None]] = []
    for message in messages:
        if message.role == "user":
            pairs.append((message, None))
        elif message.role == "assistant":
            if pairs and pairs[-1][1] is None:
                pairs[-1] = (pairs[-1][0], message)
            else:
                pairs.append((None, message))
    return pairs
