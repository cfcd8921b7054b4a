"""A response as the store has it: `StoredResponse`, read as if it had just ended.

Knows a row; no engine and no socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixchat.server.acceptance import options_of
from radixchat.server.protocol import (
    ErrorInfo,
    ResponseCreated,
    ResponseDone,
    ResponseTimings,
    ResponseUsage,
)
from radixchat.server.response_events import FIRST_DELTA
from radixchat.server.response_log import ResponseLog, Subscription
from radixchat.server.rows import KILLED, ResponseRow


class StoredResponse:
    """An ended response; its log has the whole text as one delta."""

    def __init__(self, row: ResponseRow, text: str, *, listed: bool) -> None:
        """text: of its answer."""
        self.id = row.id
        self.created = ResponseCreated(
            row.conversation,
            row.id,
            message=row.question,
            created_at=row.created_at,
            listed=listed,
            instructions=row.instructions,
            previous_response=row.previous_response,
            options=options_of(row.options),
            metadata=row.metadata,
        )
        closing = max(row.sequence, FIRST_DELTA + bool(text))
        self.log = ResponseLog(self.created, text, closing - 1)
        self.done = ResponseDone(
            conversation=row.conversation,
            response=row.id,
            status=row.status,
            reason=row.reason,
            output_text=text,
            usage=_usage(row.usage, row.timings),
            timings=_timings(row.timings),
            input_ids=(),
            output_ids=(),
            seed=row.options.get("seed"),
            error=None if row.error is None else ErrorInfo("server_error", 500, row.error, {}),
            sequence=self.log.end_sequence(row.status if row.generates else "incomplete"),
        )
        self.log.end(self.done)

    @property
    def is_cut_short(self) -> bool:
        """The end of its process ended it: `ChatService.continue_response` goes on with it."""
        return self.done.reason == KILLED.reason

    def cancel(self, reason: str = "interrupted") -> None:
        """It has ended: nothing."""

    def subscribe(self, wake: Callable[[], None] | None = None, after: int = -1) -> Subscription:
        """A reader's place in the log."""
        return self.log.subscribe(wake, after)


def _usage(stored: dict[str, Any], timings: dict[str, Any]) -> ResponseUsage:
    """Of a response whose process was killed nothing is known: zeros."""
    given = stored.get("input_tokens_details", {})
    made = stored.get("output_tokens_details", {})
    return ResponseUsage(
        stored.get("input_tokens", 0),
        given.get("cached_tokens", 0),
        given.get("cache_write_tokens", 0),
        stored.get("output_tokens", 0),
        made.get("draft_tokens", 0),
        made.get("accepted_tokens", 0),
        made.get("kept_tokens"),
        timings.get("cache_host_n", 0),
        timings.get("cache_disk_n", 0),
        timings.get("cache_store_n", 0),
    )


def _timings(stored: dict[str, Any]) -> ResponseTimings:
    return ResponseTimings(
        stored.get("ttft_ms"),
        stored.get("prompt_ms"),
        stored.get("predicted_ms"),
        stored.get("queue_ms"),
    )
