"""Tests of server/span_export.py; the SDK itself is only used where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.server.span_export import exporter_names, set_up_export

PROGRAM = """
from radixchat.server.tracing import find_opentelemetry
found = find_opentelemetry()
assert found is not None
with found.request_span("GET", "/v1/models", {}):
    pass
"""


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, []),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": " console, otlp,"}, ["console", "otlp"]),
    ],
)
def test_the_environment_names_exporters(environ: Mapping[str, str], names: list[str]) -> None:
    """Without any there is none; an endpoint alone means OTLP."""
    assert exporter_names(environ) == names


def test_an_exporter_that_is_missing_is_refused() -> None:
    """At the start, by name, and not in the middle of a request."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK is not installed")
    with pytest.raises(ConfigError, match="'carrier-pigeon', which is not installed"):
        set_up_export({"OTEL_TRACES_EXPORTER": "carrier-pigeon"})


def test_spans_are_exported_when_the_process_ends() -> None:
    """A program that only has the environment's variables sends its spans."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK is not installed")
    environ = {**os.environ, "OTEL_TRACES_EXPORTER": "console"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True
    )
    span = json.loads(ran.stdout)
    assert span["name"] == "GET /v1/models"
    assert span["resource"]["attributes"]["service.name"] == "radixchat"
