"""An error on the wire. Wire values, standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """OpenAI's error object; numbers such as `retry_after_ms` or `n_ctx` stand beside these."""

    type: str
    code: str
    message: str
    param: str | None
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """The body of an HTTP answer that is an error."""

    error: ErrorBody


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent:
    """A client event was refused; the socket stays open, unless a close frame follows.

    event_id, stream_id: of that event.
    """

    type: Literal["error"] = "error"
    status: int
    error: ErrorBody
    event_id: str | None = None
    stream_id: str | None = None
