"""Tests of server/log_format.py."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from radixchat.engine.errors import EngineStopped, InvalidRequest, StoreError
from radixchat.server.log_format import log_event, set_up_logging

SECRET = "what the user said"


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was before at the end."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    names = ("asyncio", "websockets", "uvicorn", "uvicorn.error")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.NOTSET)  # servers of other tests have their own
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


def lines(log_format: str, error: BaseException | None = None, **fields: Any) -> str:
    """What one event comes to in the log."""
    stream = io.StringIO()
    set_up_logging(log_format, stream)
    log_event(logging.getLogger("radixchat.test"), logging.INFO, "request", error=error, **fields)
    return stream.getvalue()


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The same exception, after it was raised."""
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001 - whichever it is
        return caught


@pytest.mark.usefixtures("root")
def test_json_lines() -> None:
    """An event is one JSON object with its fields."""
    line = json.loads(lines("json", route="/v1/responses", status=200, ms=1.5, to=None))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "radixchat.test",
        "event": "request",
        "route": "/v1/responses",
        "status": 200,
        "ms": 1.5,
        "to": None,
    }


@pytest.mark.usefixtures("root")
def test_text_lines() -> None:
    """Fields follow the event; one that is not a plain word is quoted."""
    text = lines("text", route="/v1/responses", note="two words", status=200)
    assert text.endswith('INFO    request route=/v1/responses note="two words" status=200\n')


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_record_stays_on_its_line(log_format: str) -> None:
    """What comes from outside can neither begin a line of its own nor move the cursor."""
    text = lines(log_format, agent="a\nb\x1b[2Jc\u2028d")
    assert text.count("\n") == 1
    assert "\x1b" not in text


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        InvalidRequest(f"stop is {SECRET!r}"),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
    ],
)
def test_an_error_is_told_without_what_a_client_sent(log_format: str, error: BaseException) -> None:
    """The class and the places in the source are logged, the message is not, nor its cause's."""
    stopped = EngineStopped(f"the engine failed: {error}")
    for raising in (raised(error), raised(RuntimeError(SECRET), error), raised(stopped, error)):
        text = lines(log_format, raising)
        assert SECRET not in text
        assert type(error).__name__ in text
        assert "test_log_format.py" in text
        assert "in raised" in text


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_of_the_machine_is_told_with_its_message(log_format: str) -> None:
    """A full disk says so."""
    text = lines(log_format, raised(StoreError("disk is full"), OSError(28, "No space left")))
    assert "disk is full" in text
    assert "No space left" in text


def test_a_websocket_address_is_not_logged(root: logging.Logger) -> None:
    """uvicorn's line with the query is dropped; its other lines stay."""
    stream = io.StringIO()
    set_up_logging("text", stream)
    logger = logging.getLogger("uvicorn.error")
    logger.warning('%s - "WebSocket %s" [accepted]', ("127.0.0.1", 1), "/v1/responses?key=abc")
    logger.warning("other %s", "line")
    assert "abc" not in stream.getvalue()
    assert "other line" in stream.getvalue()
    assert len(root.handlers) == 1
