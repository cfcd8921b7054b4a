"""The events of one response, from acceptance to its one end. Frozen values, standard library only.

Numbers of the log, as the Responses API counts: 0 created, 1 in progress, 2 item and 3 part added
(with the first text), 4 + i the i-th delta, then the text, the part and the item are done, then
the response. One that ends without text, and not "completed", ends with number 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from radixchat.server.error_info import ErrorInfo
from radixchat.server.miss_report import MissReport
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_options import ResponseOptions
from radixchat.server.response_usage import SOURCES, ResponseTimings, ResponseUsage

FIRST_DELTA = 4
NUM_CLOSING = 4  # text, part and item are done, and the response
NO_TEXT_DONE = 2  # the end's number where there is no text to be closed
DEFAULT_OPTIONS = ResponseOptions()


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """The turn is accepted and stored; nothing is computed yet.

    listed: the conversation was made by somebody, and not just to hold this response. message: the
    user's message that is answered. instructions: the system message. previous_response: what it
    goes on from, where that was said. created_at: seconds since the epoch.

    left_out: ids of the messages, oldest first, that the prompt is without, for want of room
    (`truncation` is "auto"); left_out_tokens: how many tokens the whole conversation has more.
    """

    conversation: str
    response: str
    left_out: tuple[str, ...] = ()
    left_out_tokens: int = 0
    message: str = ""
    created_at: float = 0.0
    listed: bool = True
    instructions: str | None = None
    previous_response: str | None = None
    options: ResponseOptions = DEFAULT_OPTIONS
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """How far the prompt is computed: `cached` + computed = `processed` of `total` tokens.

    A state and no part of the log: it has no sequence number.
    """

    response: str
    total: int
    cached: int
    processed: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class CacheSegment:
    """Tokens [start, end) of a prompt; message: whose share it is.

    state: "memory", the pool; "host", "disk" or "store", a tier below it; or "computed".

    message: None where that cannot be told. text: the tokens as text, special ones too, where that
    was asked for; of a character that two segments share, the later has it.
    """

    start: int
    end: int
    state: str
    message: str | None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Where the tokens of a prompt came from, or would come from. A state, as PrefillProgress is.

    response: None where nobody has asked for an answer yet. divergence: why not more was there.
    computing_ms: how long the rest of the prompt is likely to take, by the prompts so far; None:
    none was long enough to tell.
    """

    response: str | None
    input_tokens: int
    cached_tokens: int
    segments: tuple[CacheSegment, ...]
    divergence: MissReport | None = None
    computing_ms: float | None = None

    @property
    def source(self) -> str | None:
        """The farthest place that something comes from; None: nothing is cached."""
        found = {segment.state for segment in self.segments}
        return next((place for place in reversed(SOURCES) if place in found), None)


@dataclass(frozen=True, slots=True)
class OutputTextDelta:
    """More text; the deltas joined are the final text.

    sequence: its number in the response's log; first_sequence: where several were merged, that of
    the first. offset: code points of the text before it.
    """

    response: str
    delta: str
    sequence: int = FIRST_DELTA
    first_sequence: int = FIRST_DELTA
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """The whole text up to `sequence`, for a reader whose place in the log is gone."""

    response: str
    sequence: int
    output_text: str
    status: str


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """The one terminal event of a response, sent after it is stored.

    conversation, response: None where a turn was refused before there was one (a client's record
    of it; nothing is sent then).
    status: "completed", "incomplete" or "failed" (error is set). reason, of "incomplete":
    "max_output_tokens", as many as were asked for; "context_length", the conversation has come to
    the end of what the model can see; "deadline", `timeout_s` have passed; "interrupted".
    stop: the one of the `stop` texts that ended the answer, which is not part of output_text.
    output_ids: all that was sampled, with a stop token and the tokens of a stop text. logprobs: of
    each of these, if they were asked for. seed: what repeats a sampled answer, drawn if none was
    asked for; None for a turn that was refused. miss: None where nothing was missed, where the
    cache is off, and where the answer ended before its first token. n_ctx: as many tokens a
    conversation can have; tokens_left: what the next turn has of them, its answer included.
    left_out, left_out_tokens: ResponseCreated's. sequence: the number of the first event that
    closes the log (protocol §3: text, part and item are closed, then the response).
    """

    conversation: str | None
    response: str | None
    status: str
    reason: str | None
    output_text: str
    usage: ResponseUsage
    timings: ResponseTimings
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    seed: int | None = None
    error: ErrorInfo | None = None
    miss: MissReport | None = None
    stop: str | None = None
    logprobs: tuple[OutputLogprob, ...] | None = None
    n_ctx: int | None = None
    tokens_left: int | None = None
    left_out: tuple[str, ...] = ()
    left_out_tokens: int = 0
    sequence: int = NO_TEXT_DONE

    def to_turn(self, *, ids: bool = False) -> dict[str, Any]:
        """The turn as one JSON object; with `ids`, the exact tokens too."""
        turn: dict[str, Any] = {
            "type": "turn",
            "conversation": self.conversation,
            "response": self.response,
            "status": self.status,
            "incomplete_details": {"reason": self.reason} if self.reason else None,
            "output_text": self.output_text,
            "stop": self.stop,
            "logprobs": None if self.logprobs is None else [p.to_dict() for p in self.logprobs],
            "seed": self.seed,
            "usage": self.usage.to_dict(),
            "timings": self.timings.to_dict(self.usage),
            "n_ctx": self.n_ctx,
            "tokens_left": self.tokens_left,
            "prompt_cache_diagnostics": self.miss.diagnostics() if self.miss else None,
            "x_cache": self._x_cache(),
            "left_out": list(self.left_out),
            "left_out_tokens": self.left_out_tokens,
        }
        if self.error is not None:
            turn["error"] = {
                "code": self.error.code,
                "message": self.error.message,
                **self.error.details,
            }
        if ids:
            turn["input_ids"] = list(self.input_ids)
            turn["output_ids"] = list(self.output_ids)
        return turn

    def _x_cache(self) -> dict[str, Any] | None:
        """None where there is nothing to say: nothing was missed, nor came from below the pool."""
        details = self.miss.details() if self.miss else None
        usage = self.usage
        if usage.source in (None, "memory") and usage.not_restored is None:
            return details
        below = {"source": usage.source, "not_restored": usage.not_restored}
        return {**below, **(details or {})}


ResponseEvent = (
    ResponseCreated
    | PrefillProgress
    | CacheReport
    | OutputTextDelta
    | ResponseSnapshot
    | ResponseDone
)
