"""What the server writes to its log: one line a record, text or JSON, without anybody's words.

A record is an event's name and fields that name things: ids, codes, numbers, routes. Messages of
a chat are in none of them. Exceptions are where such text could slip in, for Python quotes the
offending value: of one that is not known to speak of the machine only, the log has the class and
the places in the source, and not the message. Request lines are logged as routes, without the
query, for a search has words in it. Knows no HTTP.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from radixchat.engine.errors import (
    ConfigError,
    EngineOverloaded,
    EngineStopped,
    ModelLoadError,
    RateLimited,
    ServerDraining,
    StoreError,
)

# Their messages speak of files, numbers and settings, never of what a client sent.
_PLAIN_ERRORS = (
    ConfigError,
    EngineOverloaded,
    ModelLoadError,
    OSError,
    RateLimited,
    ServerDraining,
    StoreError,
    sqlite3.Error,
    MemoryError,
)
_FIELDS = "fields"  # where a LogRecord carries them
# uvicorn logs the whole address of a WebSocket, query and all; the request log has its route.
_ADDRESS_LINE = '%s - "WebSocket'


def log_event(
    logger: logging.Logger,
    level: int,
    event: str,
    *,
    error: BaseException | None = None,
    **fields: str | float | bool | None,
) -> None:
    """Log an event by its name, such as "request", with fields; never a chat's text."""
    logger.log(level, event, exc_info=error, extra={_FIELDS: fields})


def set_up_logging(log_format: str, stream: TextIO) -> None:
    """Have the whole process log to `stream`; log_format: "text" or "json".

    For the edge of a process, once: it replaces what the root logger did before.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    handler.addFilter(_without_address)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in ("asyncio", "websockets"):  # at "info" they tell of every connection
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """A record as one JSON object: time, level, logger, event, the fields, the error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a field's value that JSON has no form for is shown as text."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        error = _error(record)
        if error is not None:
            line["error"] = describe_failure(error)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """A record for eyes: time, level, event, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and more below it for an error."""
        parts = [_time(record), record.levelname.ljust(7), _clean(record.getMessage())]
        parts += [f"{name}={_value(value)}" for name, value in _fields(record).items()]
        lines = [" ".join(parts)]
        error = _error(record)
        while error is not None:
            told = describe_failure(error)
            message = f": {_clean(told['message'])}" if "message" in told else ""
            lines += [f"  {told['type']}{message}", *(f"    {place}" for place in told["places"])]
            error = error.__cause__
        return "\n".join(lines)


def describe_failure(error: BaseException) -> dict[str, Any]:
    """An exception without what a client may have sent: class, places, and its cause likewise.

    The message only of those that speak of this machine.
    """
    told: dict[str, Any] = {"type": type(error).__name__}
    if _is_plain(error):
        told["message"] = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    told["places"] = [f"{_file(f.filename)}:{f.lineno} in {f.name}" for f in frames]
    if error.__cause__ is not None:
        told["cause"] = describe_failure(error.__cause__)
    return told


def _is_plain(error: BaseException) -> bool:
    # That the engine stopped says why, and the reason may quote a value as any error does.
    if isinstance(error, EngineStopped):
        return error.__cause__ is None
    return isinstance(error, _PLAIN_ERRORS)


def _file(path: str) -> str:
    """The last two parts: which module it is, and not where on the machine."""
    return "/".join(Path(path).parts[-2:])


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
    return fields


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(value: object) -> str:
    """As it is where that is one plain word, else quoted."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text)


def _clean(text: str) -> str:
    """Nothing that could end the line or move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _without_address(record: logging.LogRecord) -> bool:
    return not (isinstance(record.msg, str) and record.msg.startswith(_ADDRESS_LINE))
