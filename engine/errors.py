"""Every error that the engine and the service raise on purpose.

    RadixChatError
    ├─ ConfigError            a setting is impossible: field, value, what would do
    ├─ ModelLoadError         checkpoint missing, damaged or unsupported: what was missing
    ├─ InvalidRequest
    │  ├─ PromptTooLong       the prompt does not fit: num_tokens, limit, what limits
    │  └─ InvalidSamplingParams
    ├─ EngineOverloaded       try again later: waiting, limit
    ├─ EngineStopped          __cause__ tells why
    ├─ ConversationNotFound
    ├─ ConversationLocked     another turn runs, or the tip moved: retry_after_ms
    ├─ ResponseNotFound
    ├─ IdempotencyConflict    an event id that was used for something else
    ├─ RateLimited            a principal's share is used up: retry_after_ms
    ├─ ServerDraining         the process is about to end, or not ready yet: retry_after_ms
    ├─ KeyRefused             the server lets nobody in with this key, or without one
    ├─ ServerUnreachable      nobody answers at a server's address, or it has gone for good
    └─ StoreError             what is on disk does not verify, or cannot be read or written

Standard library only, so that a client can import it without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NO_DETAILS: Mapping[str, int | str] = MappingProxyType({})


class RadixChatError(Exception):
    """Base of every error raised on purpose."""


class ConfigError(RadixChatError):
    """A setting is impossible; the message names the field, the value, and what would do."""


class ModelLoadError(RadixChatError):
    """A checkpoint is missing, damaged or unsupported; the message says what to do."""


class InvalidRequest(RadixChatError):
    """The request cannot be served as asked.

    Nothing was computed, unless what it asks for turns out to be impossible in the middle of an
    answer (its grammar and its bans leave no token): that ends it then.
    """


class PromptTooLong(InvalidRequest):
    """The prompt leaves no room for an answer.

    `num_tokens` is the prompt's length, `limit` the largest that would do, and `limited_by`
    says what sets it: "context" (the model's positions) or "pool" (the KV pages). at_least: it was
    not counted further than to see that. The message says what would do.
    """

    def __init__(
        self, num_tokens: int, limit: int, limited_by: str, *, at_least: bool = False
    ) -> None:
        self.num_tokens = num_tokens
        self.limit = limit
        self.limited_by = limited_by
        way_out = "give the pool more tokens" if limited_by == "pool" else "leave out old turns"
        number = f"at least {num_tokens}" if at_least else str(num_tokens)
        super().__init__(
            f"the prompt has {number} tokens, but the {limited_by} admits at most {limit}:"
            f" shorten it, or {way_out}"
        )


class InvalidSamplingParams(InvalidRequest):
    """A sampling parameter is out of range; the message shows the value and the range."""


class EngineOverloaded(RadixChatError):
    """Too many requests are waiting already; try again later."""

    def __init__(self, waiting: int, limit: int) -> None:
        self.waiting = waiting
        self.limit = limit
        super().__init__(f"{waiting} requests are waiting already, the limit is {limit}")


class EngineStopped(RadixChatError):
    """The engine is not running; `__cause__` tells why when it failed."""


class ConversationNotFound(RadixChatError):
    """No conversation has that id, or the prefix of an id is ambiguous."""


class ConversationLocked(RadixChatError):
    """Another turn of the conversation is running, or it moved on since it was read.

    retry_after_ms: when to try again; 0 means to read the conversation again at once.
    """

    def __init__(self, message: str, retry_after_ms: int) -> None:
        self.retry_after_ms = retry_after_ms
        super().__init__(message)


class ResponseNotFound(RadixChatError):
    """No response of this principal has that id."""


class IdempotencyConflict(RadixChatError):
    """An event id was sent again with other content."""


class RateLimited(RadixChatError):
    """A principal has used up its share for now; details: the numbers, by name."""

    def __init__(
        self, message: str, retry_after_ms: int, details: Mapping[str, int | str] = NO_DETAILS
    ) -> None:
        self.retry_after_ms = retry_after_ms
        self.details = details
        super().__init__(message)


DRAINING = "the server is about to stop and takes no new turns; try again later"


class ServerDraining(RadixChatError):
    """The process takes nothing new: it finishes what runs, or is not ready yet."""

    def __init__(self, retry_after_ms: int, message: str = DRAINING) -> None:
        self.retry_after_ms = retry_after_ms
        super().__init__(message)


class KeyRefused(RadixChatError):
    """A server lets nobody in with this key, or wants one."""


class ServerUnreachable(RadixChatError):
    """Nobody answers at a server's address, or whoever does is no server of ours."""


class StoreError(RadixChatError):
    """What is on disk does not verify, or cannot be read or written."""
