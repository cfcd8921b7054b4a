"""Tests of server/tracing.py, with the real SDK where it is installed."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from radixchat.server.error_info import ErrorInfo
from radixchat.server.protocol import ResponseCreated
from radixchat.server.tracing import OpenTelemetry, ResponseSpans, find_opentelemetry
from radixchat.tests.server.test_metrics import DONE

CREATED = ResponseCreated("conv_1", "resp_1")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class NotedSpan:
    """A span that keeps what is said of it."""

    def __init__(self, name: str, attributes: Mapping[str, Any]) -> None:
        self.name = name
        self.attributes = dict(attributes)
        self.events: list[str] = []
        self.status: object = None
        self.is_over = False

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def add_event(self, name: str, *, timestamp: int) -> None:
        assert timestamp > 1_700_000_000 * 10**9, "nanoseconds since the epoch"
        self.events.append(name)

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self) -> None:
        self.is_over = True


def noted() -> tuple[ResponseSpans, list[NotedSpan]]:
    """Tracing into a list."""
    spans: list[NotedSpan] = []

    def start_span(name: str, *, attributes: Mapping[str, Any], **_: Any) -> NotedSpan:
        spans.append(NotedSpan(name, attributes))
        return spans[-1]

    def use_span(span: NotedSpan, **_: Any) -> contextlib.AbstractContextManager[NotedSpan]:
        return contextlib.nullcontext(span)

    telemetry = OpenTelemetry(start_span, lambda: None, lambda _: None, use_span, "error", "server")
    return ResponseSpans(telemetry, "tiny"), spans


def test_a_response_is_one_span() -> None:
    """It opens with the acceptance and closes with what the response cost."""
    spans_of, spans = noted()
    spans_of.response_began(CREATED)
    assert not spans[0].is_over
    spans_of.response_ended(DONE)
    spans_of.response_ended(DONE)
    (span,) = spans
    assert span.name == "chat tiny"
    assert span.is_over
    assert span.events == ["first_token"]
    assert span.attributes["gen_ai.usage.input_tokens"] == 10
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 9
    assert span.status is None


def test_a_span_has_nobodys_words() -> None:
    """Neither the answer's text nor its tokens are attributes."""
    spans_of, spans = noted()
    spans_of.response_began(replace(CREATED, instructions="secret words"))
    spans_of.response_ended(replace(DONE, output_text="secret words"))
    assert "secret" not in repr(spans[0].attributes)


def test_a_failed_response_is_an_error() -> None:
    """Its code is the error's type."""
    spans_of, spans = noted()
    spans_of.response_began(CREATED)
    error = ErrorInfo("engine_failed", 500, "words", {})
    spans_of.response_ended(replace(DONE, status="failed", error=error))
    assert spans[0].status == "error"
    assert spans[0].attributes["error.type"] == "engine_failed"


def test_without_the_sdk_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is not installed is no error."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert find_opentelemetry() is None


@pytest.fixture
def exported() -> Any:
    """The real SDK's spans, kept in memory."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK is not installed")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    found = find_opentelemetry()
    assert found is not None
    return replace(found, start_span=provider.get_tracer("test").start_span), exporter


def test_the_real_sdk_nests_the_spans(exported: Any) -> None:
    """The response's span is below the request's, and that below the caller's."""
    telemetry, exporter = exported
    spans_of = ResponseSpans(telemetry, "tiny")
    with telemetry.request_span("POST", "/v1/responses", {"traceparent": PARENT}):
        spans_of.response_began(CREATED)
    spans_of.response_ended(replace(DONE, status="failed"))
    request, response = exporter.get_finished_spans()
    assert f"{request.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
    assert response.parent.span_id == request.context.span_id
    assert response.name == "chat tiny"
    assert response.status.status_code.name == "ERROR"
    assert [event.name for event in response.events] == ["first_token"]
