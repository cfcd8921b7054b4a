"""OpenTelemetry spans of responses and requests, where the SDK is installed and set up.

One span a response, "chat <model>", from its acceptance to its end, below the span of the request
that asked for it, below that of whoever sent a `traceparent`. Attributes are the semantic
conventions' `gen_ai.*` as of 1.37 (status Development) and ours; none of them is a message's
text. Where they go the environment says (`span_export.py`); without the SDK there are none.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from radixchat.engine.request import TokenEvent
from radixchat.server.protocol import ResponseCreated, ResponseDone
from radixchat.server.span_export import set_up_export

_NAME = "radixchat"
_NANOSECONDS_PER_MS = 1_000_000
# A response whose end is never told (the process is being stopped) must not be kept for ever.
_MAX_OPEN = 10_000


class Span(Protocol):
    """The part of opentelemetry.trace.Span that is used."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Say something of it."""

    def add_event(self, name: str, *, timestamp: int) -> None:
        """Something happened in it, nanoseconds since the epoch."""

    def set_status(self, status: Any) -> None:
        """How it went, where that is an error."""

    def end(self) -> None:
        """It is over."""


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    """The functions of the installed SDK's API that are used."""

    start_span: Callable[..., Span]
    current_context: Callable[[], object]
    extract: Callable[[Mapping[str, str]], object]
    use_span: Callable[..., AbstractContextManager[Span]]
    error_status: object
    server_kind: object

    def request_span(
        self, method: str, route: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[Span]:
        """The span of an HTTP request or a WebSocket; what begins within is below it.

        headers: those that may name the span of whoever asks (`traceparent`).
        """
        span = self.start_span(
            f"{method} {route}",
            context=self.extract(headers),
            kind=self.server_kind,
            attributes={"http.request.method": method, "http.route": route},
        )
        return self.use_span(span, end_on_exit=True, record_exception=False)


def find_opentelemetry(environ: Mapping[str, str] = os.environ) -> OpenTelemetry | None:
    """The SDK if it is installed, set up as the environment says; else None.

    Raises ConfigError: that asks for an exporter which is not installed.
    """
    try:
        importlib.import_module("opentelemetry.sdk.trace")
        trace = importlib.import_module("opentelemetry.trace")
        context = importlib.import_module("opentelemetry.context")
        propagate = importlib.import_module("opentelemetry.propagate")
    except ModuleNotFoundError:
        return None
    set_up_export(environ)
    return OpenTelemetry(
        start_span=trace.get_tracer(_NAME).start_span,
        current_context=context.get_current,
        extract=propagate.extract,
        use_span=trace.use_span,
        error_status=trace.StatusCode.ERROR,
        server_kind=trace.SpanKind.SERVER,
    )


class ResponseSpans:
    """Makes the spans of one host's responses; an `Observer` of it."""

    def __init__(self, telemetry: OpenTelemetry, model: str) -> None:
        self._telemetry = telemetry
        self._model = model
        self._open: dict[str, tuple[Span, int]] = {}  # and when it began

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """No span is made for a token."""

    def response_began(self, created: ResponseCreated) -> None:
        """Open the response's span, below the request's."""
        if len(self._open) >= _MAX_OPEN:
            return
        span = self._telemetry.start_span(
            f"chat {self._model}",
            context=self._telemetry.current_context(),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "radixchat",
                "gen_ai.request.model": self._model,
                "gen_ai.response.id": created.response,
                "gen_ai.conversation.id": created.conversation,
            },
        )
        self._open[created.response] = span, time.time_ns()

    def response_ended(self, done: ResponseDone) -> None:
        """Close its span with what it cost."""
        if done.response not in self._open:
            return
        span, began = self._open.pop(done.response)
        usage, timings = done.usage, done.timings
        reason = done.error.code if done.error is not None else done.reason or "stop"
        for key, value in (
            ("gen_ai.usage.input_tokens", usage.input_tokens),
            ("gen_ai.usage.output_tokens", usage.output_tokens),
            ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
            ("gen_ai.response.finish_reasons", (reason,)),
            ("radixchat.response.status", done.status),
            ("radixchat.cache_write_tokens", usage.cache_write_tokens),
            ("radixchat.ttft_ms", timings.ttft_ms),
            ("radixchat.queue_ms", timings.queue_ms),
            ("radixchat.miss_reason", done.miss.reason if done.miss is not None else None),
            ("error.type", done.error.code if done.error is not None else None),
        ):
            if value is not None:
                span.set_attribute(key, value)
        if done.status == "failed":
            span.set_status(self._telemetry.error_status)
        if timings.ttft_ms is not None:
            first = began + round(timings.ttft_ms * _NANOSECONDS_PER_MS)
            span.add_event("first_token", timestamp=first)
        span.end()

    def database_used(self, seconds: float) -> None:
        """No span is made for a call of the store."""
