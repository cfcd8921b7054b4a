"""Exit codes: each error has one, and the help lists them all."""

from __future__ import annotations

import pytest

from radixchat.chat_cli import exit_codes
from radixchat.server.error_info import ERROR_CODES, ErrorInfo, describe_error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("context_length_exceeded", 1),
        ("invalid_value", 1),
        ("unknown_command", 1),
        ("engine_failed", 1),
        ("store_error", 1),
        ("server_error", 1),
        ("invalid_configuration", 2),
        ("model_unavailable", 69),
        ("server_overloaded", 75),
        ("conversation_locked", 75),
    ],
)
def test_error_codes(code: str, expected: int) -> None:
    """An error's code decides the exit code."""
    assert exit_codes.for_error(ErrorInfo(code, 0, "", {})) == expected


def test_every_error_is_a_failure() -> None:
    """No error of the protocol exits as success or with an undocumented code."""
    for _, code, status in ERROR_CODES:
        assert exit_codes.for_error(ErrorInfo(code, status, "", {})) in exit_codes.MEANINGS
        assert exit_codes.for_error(ErrorInfo(code, status, "", {})) != exit_codes.OK
    assert exit_codes.for_error(describe_error(ValueError("a bug"))) == exit_codes.ERROR


def test_signals_follow_the_shell() -> None:
    """What a signal ends exits with 128 plus its number."""
    assert (exit_codes.HANGUP, exit_codes.INTERRUPTED) == (128 + 1, 128 + 2)
    assert (exit_codes.BROKEN_PIPE, exit_codes.TERMINATED) == (128 + 13, 128 + 15)


def test_epilog_lists_every_code() -> None:
    """The help's table has a line for each code."""
    lines = exit_codes.help_epilog().splitlines()[2:]
    assert [int(line.split()[0]) for line in lines] == sorted(exit_codes.MEANINGS)
