"""Responses as the service tells of them, for tests of what goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixchat.server.protocol import (
    CacheReport,
    CacheSegment,
    ErrorInfo,
    MissReport,
    OutputLogprob,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseFormat,
    ResponseOptions,
    ResponseSnapshot,
    ResponseTimings,
    ResponseUsage,
)

RESPONSE, CONVERSATION, MODEL = "resp_01ABC", "conv_01ABC", "tiny"
# As it is told: its own words stay in the server.
_STOPPED = "the engine has stopped; the server's log says how"
USAGE = ResponseUsage(10, 8, 4, 3, draft_tokens=2, accepted_tokens=1, kept_tokens=2)
TIMINGS = ResponseTimings(5.0, 4.0, 2.0, queue_ms=0.5, first_tokens=2)
CREATED = ResponseCreated(
    CONVERSATION,
    RESPONSE,
    message="msg_question",
    created_at=1.5,
    instructions="Be terse.",
    options=ResponseOptions(temperature=0.5, max_output_tokens=20),
    metadata={"topic": "wire"},
)
MISS = MissReport("changed", 3, "msg_question", "old", "new", 5, 3)
LOGPROBS = (
    OutputLogprob("Hé", "Hé".encode(), -0.5, (OutputLogprob("Ho", b"Ho", -1.5),)),
    OutputLogprob("<end>", None, -float("inf")),
)


def done(
    text: str,
    sequence: int,
    *,
    status: str = "completed",
    reason: str | None = None,
    error: ErrorInfo | None = None,
    miss: MissReport | None = None,
    logprobs: tuple[OutputLogprob, ...] | None = None,
) -> ResponseDone:
    """The end of CREATED's response; sequence: of its first closing event."""
    return ResponseDone(
        CONVERSATION,
        RESPONSE,
        status,
        reason,
        text,
        USAGE,
        TIMINGS,
        input_ids=(1, 2, 3),
        output_ids=(4, 5),
        seed=17,
        error=error,
        miss=miss,
        stop="\n",
        logprobs=logprobs,
        n_ctx=100,
        tokens_left=87,
        sequence=sequence,
    )


def answer(texts: Sequence[str], **end: Any) -> list[ResponseEvent]:
    """A response whose deltas are these; end: what `done` takes by name."""
    events: list[ResponseEvent] = [CREATED]
    offset = 0
    for number, text in enumerate(texts):
        events.append(OutputTextDelta(RESPONSE, text, 4 + number, 4 + number, offset))
        offset += len(text)
    return [*events, done("".join(texts), 4 + len(texts), **end)]


STATES: list[ResponseEvent] = [
    PrefillProgress(RESPONSE, total=10, cached=4, processed=8, time_ms=1.5),
    CacheReport(
        RESPONSE,
        10,
        8,
        (
            CacheSegment(0, 8, "memory", "msg_system"),
            CacheSegment(8, 10, "computed", None),
        ),
        divergence=MISS,
    ),
    ResponseSnapshot(RESPONSE, 5, "Hé", "in_progress"),
]
FAILED = done(
    "",
    2,
    status="failed",
    error=ErrorInfo("engine_failed", 500, _STOPPED, {"step": 3}),
)
WARM_UP = done("", 2)
FORMATTED = ResponseCreated(
    CONVERSATION,
    RESPONSE,
    listed=False,
    previous_response="resp_00",
    options=ResponseOptions(
        response_format=ResponseFormat("json_schema", '{"type":"object"}'),
        top_logprobs=2,
        truncation="auto",
    ),
)


def every_kind() -> dict[str, list[ResponseEvent]]:
    """Responses that end in every way, by a name."""
    return {
        "completed": answer(["Hé", "llo"], logprobs=LOGPROBS),
        "without text": answer([]),
        "warm-up": [CREATED, WARM_UP],
        "limit": answer(["a"], status="incomplete", reason="max_output_tokens"),
        "context": answer(["a"], status="incomplete", reason="context_length"),
        "cancelled": answer(["a", "b"], status="incomplete", reason="interrupted"),
        "cancelled at once": [CREATED, done("", 2, status="incomplete", reason="interrupted")],
        "shutdown": answer(["a"], status="incomplete", reason="server_shutdown"),
        "failed": [CREATED, FAILED],
        "refused late": [
            CREATED,
            done("", 2, status="failed", error=ErrorInfo("invalid_value", 400, "no token", {})),
        ],
        "format": [FORMATTED, *answer(["{}"])[1:]],
        "merged": [
            CREATED,
            STATES[0],
            STATES[1],
            OutputTextDelta(RESPONSE, "Hello", 8, 4, 0),
            done("Hello", 9, miss=MISS),
        ],
        **{
            f"miss: {reason}": answer(["a"], miss=MissReport(reason, 3, None, None, None, 5, None))
            for reason in (
                "cold",
                "evicted",
                "template",
                "namespace",
                "model",
                "expired",
                "truncated",
                "unknown",
            )
        },
    }
