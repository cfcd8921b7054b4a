"""What a client of conversations sees: asks, events, views, errors as codes; in one place.

Frozen values, standard library only: importable without torch, numpy or a socket. Knows no
tokenizer, no store and no engine; the service produces these values, clients consume them.
"""

from __future__ import annotations

from radixchat.engine.errors import (
    ConfigError,
    ConversationLocked,
    ConversationNotFound,
    EngineStopped,
    IdempotencyConflict,
    InvalidRequest,
    KeyRefused,
    ModelLoadError,
    RadixChatError,
    RateLimited,
    ResponseNotFound,
    ServerDraining,
    ServerUnreachable,
)
from radixchat.server.error_info import ErrorInfo, describe_error
from radixchat.server.miss_report import MissReport
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_events import (
    CacheReport,
    CacheSegment,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
)
from radixchat.server.response_options import TRUNCATIONS, ResponseFormat, ResponseOptions
from radixchat.server.response_usage import ResponseTimings, ResponseUsage
from radixchat.server.views import (
    MAX_FOUND,
    MAX_LISTED,
    CacheNode,
    CacheTree,
    ConversationView,
    MessageView,
    SearchHit,
    TreeMessage,
    check_limit,
)

__all__ = [
    "MAX_FOUND",
    "MAX_LISTED",
    "TRUNCATIONS",
    "CacheNode",
    "CacheReport",
    "CacheSegment",
    "CacheTree",
    "ConfigError",
    "ConversationLocked",
    "ConversationNotFound",
    "ConversationView",
    "EngineStopped",
    "ErrorInfo",
    "IdempotencyConflict",
    "InvalidRequest",
    "KeyRefused",
    "MessageView",
    "MissReport",
    "ModelLoadError",
    "OutputLogprob",
    "OutputTextDelta",
    "PrefillProgress",
    "RadixChatError",
    "RateLimited",
    "ResponseCreated",
    "ResponseDone",
    "ResponseEvent",
    "ResponseFormat",
    "ResponseNotFound",
    "ResponseOptions",
    "ResponseSnapshot",
    "ResponseTimings",
    "ResponseUsage",
    "SearchHit",
    "ServerDraining",
    "ServerUnreachable",
    "TreeMessage",
    "check_limit",
    "describe_error",
]
