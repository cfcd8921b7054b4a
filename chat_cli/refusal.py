"""Why a chat did not do something, in words for whoever is in it: with a way on, without raw ids.

Knows an error and the conversation that one is in; not what was asked for.
"""

from __future__ import annotations

from dataclasses import replace

from radixchat.server.protocol import (
    ConversationLocked,
    ConversationNotFound,
    ErrorInfo,
    RadixChatError,
    describe_error,
)

_GONE = "this conversation was deleted elsewhere; /new begins another, /list shows the others"
_BUSY = (
    "this conversation is being answered elsewhere, in another terminal or program; try again "
    "when that has ended, or begin another with /new"
)


def refusal_of(error: RadixChatError, conversation: str | None) -> ErrorInfo:
    """The error as it is shown. conversation: the one that one is in; None: none."""
    info = describe_error(error)
    if conversation is None or conversation not in info.message:
        return info
    match error:
        case ConversationNotFound():
            return replace(info, message=_GONE)
        case ConversationLocked() if error.retry_after_ms:
            return replace(info, message=_BUSY)
    return info
