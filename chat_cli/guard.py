"""What ends a command before its time: the error is shown, and becomes the exit code.

Knows no command. How an error is shown is said by whoever guards something; what has no way of its
own is run with the streams' notes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TextIO

from radixchat.chat_cli import exit_codes
from radixchat.server.protocol import RadixChatError, describe_error

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams


def run_guarded(work: Callable[[Streams], int], *, json: bool = False) -> NoReturn:
    """Do the work and exit with its code; an error is shown, and a signal leaves quietly.

    json: standard output is UTF-8, whatever the locale says.
    """
    from radixchat.chat_cli.interrupts import Interrupts
    from radixchat.chat_cli.streams import Streams

    streams = Streams.of_this_process(json=json, ids=False)
    with Interrupts(interrupt_leaves=True):
        code = guarded(lambda: work(streams), streams.notes.error)
    raise SystemExit(code)


def guarded(work: Callable[[], int], show: Callable[[str], None]) -> int:
    """The exit code of `work`, or of the error that ended it; a bug comes through."""
    try:
        return work()
    except RadixChatError as error:
        show(str(error))
        return exit_codes.for_error(describe_error(error))
    except BrokenPipeError:
        return exit_codes.BROKEN_PIPE
    except OSError as error:
        show(_told(error))
        return exit_codes.ERROR


def _told(error: OSError) -> str:
    """What it is about, and what is wrong: a stream that cannot be written fails namelessly."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    for name, stream in (("standard output", sys.stdout), ("standard error", sys.stderr)):
        if stream is not None and not _takes(stream):
            return f"{name} cannot be written: {reason}"
    return reason


def _takes(stream: TextIO) -> bool:
    """Whether a stream can be written to: what could not leave it is in it still."""
    try:
        stream.flush()
        os.write(stream.fileno(), b"")  # where nothing is held back
    except ValueError:  # it is closed, or no file's; io.UnsupportedOperation is an OSError too
        return True
    except OSError:
        return False
    return True
