"""The nouns that everybody shares: what is asked, what comes back, what it cost.

A request is tokens and three lengths; it knows no text, no template and no tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from radixchat.engine.errors import InvalidSamplingParams, RadixChatError
from radixchat.radix.allocation import Allocation, EvictedPrefix


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = "stop"  # a stop token was sampled
    LENGTH = "length"  # max_tokens were sampled
    CONTEXT = "context_length"  # the model's positions, or the pool, are used up
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen, and when to stop.

    temperature: 0 is greedy. top_k: 0 is off. top_p in (0, 1]; 1 is off. min_p in [0, 1);
    0 is off. seed: with the token's position it gives the noise, so the same seed repeats an
    answer. max_tokens: None goes on until a stop token or the end of the context.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        checks = (
            ("temperature", self.temperature, "0 to 10", 0 <= self.temperature <= 10),
            ("top_k", self.top_k, "0 (off) or more", self.top_k >= 0),
            ("top_p", self.top_p, "more than 0, at most 1", 0 < self.top_p <= 1),
            ("min_p", self.min_p, "0 (off) to less than 1", 0 <= self.min_p < 1),
            ("seed", self.seed, "0 to 2**63 - 1", 0 <= self.seed < 2**63),
            (
                "max_tokens",
                self.max_tokens,
                "1 or more",
                self.max_tokens is None or self.max_tokens >= 1,
            ),
        )
        for name, value, allowed, ok in checks:
            if not ok or (isinstance(value, float) and math.isnan(value)):
                raise InvalidSamplingParams(f"{name} is {value!r}; allowed: {allowed}")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request cost, in tokens.

    cached + computed == input; cached <= input - 1, for one token is always computed.
    cache_write counts the tokens newly inserted in the tree. evicted: tokens of the prompt after
    the cached ones that the cache had held, and gave up so many seconds before the request was
    admitted; None where it cannot tell.
    """

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    evicted_tokens: int = 0
    evicted_seconds_ago: float | None = None

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not cached."""
        return self.input_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One thing that happened to one request in one step.

    `token` is None when the step ended the request without sampling (cancelled, failed). The
    last event of a request, and only that, has `finish` and `usage`. A stop token is reported
    as `token` together with `finish`: it belongs to the conversation's ids but not to its text.
    """

    request_id: int
    token: int | None
    finish: FinishReason | None = None
    usage: Usage | None = None
    error: RadixChatError | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A turn as the engine sees it.

    tokens: prompt, then output; append-only. 0 <= num_computed < len(tokens) while it runs:
    a step computes tokens[num_computed:...] and, when it reaches the end, samples one more.
    There is no prefill and no decode, only how far num_computed is behind.
    """

    id: int
    tokens: list[int]
    sampling: SamplingParams
    stop_ids: frozenset[int] = frozenset()
    namespace: bytes = b""
    conversation: str | None = None  # whose turn it is: a hint for the cache, never a condition
    num_prompt: int = field(init=False)
    num_computed: int = 0
    num_cached: int | None = None  # set by the first admission; a requeue does not change it
    evicted: EvictedPrefix | None = None  # likewise
    num_written: int = 0
    joined: Request | None = None  # it waits for this one to compute its first joined_length tokens
    joined_length: int = 0
    joined_at: int | None = None  # the step at which it began to wait for anybody
    allocation: Allocation | None = None

    def __post_init__(self) -> None:
        self.num_prompt = len(self.tokens)

    @property
    def num_output(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - self.num_prompt

    def usage(self) -> Usage:
        """What it has cost so far."""
        cached, evicted = self.num_cached or 0, self.evicted
        return Usage(
            self.num_prompt,
            cached,
            self.num_written,
            self.num_output,
            evicted.length - cached if evicted else 0,
            evicted.seconds_ago if evicted else None,
        )
