"""What ends a command before its time: the error is shown, and becomes the exit code.

Knows no command and no stream: whoever guards something says how an error is shown.
"""

from __future__ import annotations

from collections.abc import Callable

from radixchat.chat_cli import exit_codes
from radixchat.server.protocol import RadixChatError, describe_error


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
        show(str(error))
        return exit_codes.ERROR
