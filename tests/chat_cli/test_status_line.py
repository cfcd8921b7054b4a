"""The status line: what was cached, how fast, why it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.chat_cli.status_line import status_line
from radixchat.server.protocol import ErrorInfo
from radixchat.tests.chat_cli.turns import turn


def test_completed() -> None:
    """Cached and all tokens, time to the first, tokens a second."""
    assert status_line(turn()) == "cached 812/840 · first token 41 ms · 38 tok/s"


def test_slow_rate() -> None:
    """Below ten tokens a second, tenths count."""
    assert status_line(turn(output_tokens=4, predicted_ms=500)).endswith("6.0 tok/s")


def test_one_token_has_no_rate() -> None:
    """One token spans no interval."""
    assert status_line(turn(output_tokens=1)) == "cached 812/840 · first token 41 ms"


def test_no_token() -> None:
    """An answer stopped before its first token has no times."""
    line = status_line(
        turn(status="incomplete", reason="interrupted", ttft_ms=None, predicted_ms=None), "you"
    )
    assert line == "cached 812/840 · stopped by you"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("interrupted", "stopped by SIGTERM"),
        ("max_output_tokens", "max tokens reached"),
        ("context_length", "context full"),
        ("deadline", "time limit reached"),
        ("server_shutdown", "the server has ended"),
    ],
)
def test_ending(reason: str, words: str) -> None:
    """An answer that did not end by itself says why; a reason of a newer service is shown too."""
    line = status_line(turn(status="incomplete", reason=reason), "SIGTERM")
    assert line.endswith(f" · {words}")


def test_an_ending_that_nobody_here_asked_for() -> None:
    """An interruption is nobody's unless somebody is named; who asked too late is not named."""
    assert status_line(turn(status="incomplete", reason="interrupted")).endswith(" · interrupted")
    assert status_line(turn(), "you") == status_line(turn())


def test_little_room() -> None:
    """Where less than an eighth of the context is left, it is said how much."""
    nearly = replace(turn(), n_ctx=8192, tokens_left=1023)
    assert status_line(nearly).endswith(" · 38 tok/s · 1,023 of 8,192 tokens left")
    assert status_line(replace(nearly, tokens_left=1024)) == status_line(turn())


def test_failed() -> None:
    """A failure is named; the error itself has a line of its own."""
    error = ErrorInfo("engine_failed", 500, "out of luck", {})
    assert status_line(turn(status="failed", error=error)).endswith(" · failed")
