"""Where OpenTelemetry's spans go, as the environment says: `set_up_export`.

Whoever starts a program with `opentelemetry-instrument` has it set up already, and then nothing is
done here. Else the standard variables are read: OTEL_TRACES_EXPORTER names exporters ("otlp",
"console"; "none"), and OTEL_EXPORTER_OTLP_ENDPOINT alone means "otlp". Without either there is
nowhere to send spans, and none are made. Knows no span.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from radixchat.engine.errors import ConfigError

EXPORTER = "OTEL_TRACES_EXPORTER"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
SERVICE = "OTEL_SERVICE_NAME"
_GROUP = "opentelemetry_traces_exporter"
_PROGRAM = "radixchat"


def set_up_export(environ: Mapping[str, str]) -> None:
    """Have spans exported; the SDK is installed. Does nothing where somebody has done it.

    Raises ConfigError: an exporter that is asked for is not installed.
    """
    trace = importlib.import_module("opentelemetry.trace")
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    exporters = [_find(name, environ) for name in exporter_names(environ)]
    if not exporters:
        return
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    resources = importlib.import_module("opentelemetry.sdk.resources")
    named = {} if SERVICE in environ else {"service.name": _PROGRAM}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    for exporter in exporters:
        provider.add_span_processor(export.BatchSpanProcessor(exporter.load()()))
    trace.set_tracer_provider(provider)


def exporter_names(environ: Mapping[str, str]) -> list[str]:
    """The exporters that the environment asks for."""
    default = "otlp" if any(environ.get(name) for name in ENDPOINTS) else "none"
    asked = environ.get(EXPORTER) or default
    return [name.strip() for name in asked.split(",") if name.strip() not in ("", "none")]


def _find(name: str, environ: Mapping[str, str]) -> EntryPoint:
    """An exporter's class. "otlp" is one of two packages: HTTP's, unless gRPC is asked for."""
    names = [name]
    if name == "otlp":
        grpc_first = environ.get(PROTOCOL) == "grpc"
        names = ["otlp_proto_http", "otlp_proto_grpc"][:: -1 if grpc_first else 1]
    for candidate in names:
        for found in entry_points(group=_GROUP, name=candidate):
            return found
    raise ConfigError(
        f"{EXPORTER} asks for {name!r}, which is not installed; for {'otlp'!r}: "
        "pip install opentelemetry-exporter-otlp"
    )
