"""What the process tells the shell when it ends, and which error becomes which code.

The numbers follow sysexits.h and the shell's 128 + signal. Knows no command and no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixchat.server.protocol import ErrorInfo

OK = 0
ERROR = 1
USAGE = 2
UNAVAILABLE = 69
TEMPORARY = 75
NO_PERMISSION = 77
HANGUP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        OK: "every turn was answered",
        ERROR: "a turn was refused or failed, or something else went wrong",
        USAGE: "a flag, a variable or the configuration file is wrong",
        UNAVAILABLE: "the model is not there or cannot be loaded; no server answers",
        TEMPORARY: "too busy now, or asked too often, or about to leave: try again later",
        NO_PERMISSION: "the server refuses the key, or wants one",
        HANGUP: "the terminal went away; the partial answer is kept",
        INTERRUPTED: "stopped by Ctrl-C; the partial answer is kept",
        BROKEN_PIPE: "the reader of the output went away (`| head`)",
        TERMINATED: "stopped by SIGTERM; the partial answer is kept",
    }
)
"""Every code that `radixchat` exits with; shown by `--help`."""

_BY_ERROR_CODE: Mapping[str, int] = MappingProxyType(
    {
        "model_unavailable": UNAVAILABLE,
        "server_unavailable": UNAVAILABLE,
        "invalid_api_key": NO_PERMISSION,
        "server_overloaded": TEMPORARY,
        "conversation_locked": TEMPORARY,
        "rate_limit_exceeded": TEMPORARY,
        "invalid_configuration": USAGE,
    }
)


def for_error(error: ErrorInfo) -> int:
    """The exit code of a run whose first failure is `error`."""
    return _BY_ERROR_CODE.get(error.code, ERROR)


def help_epilog() -> str:
    """The table of exit codes for `--help`."""
    rows = [f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Exit codes:", *rows])
