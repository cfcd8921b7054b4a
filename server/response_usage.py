"""What a response cost: tokens and milliseconds. Frozen values, standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCES = ("memory", "host", "disk", "store")
"""Where cached tokens may be, the nearest first: the pool, and the tiers below it."""


@dataclass(frozen=True, slots=True)
class ResponseUsage:
    """Tokens of one response. cached_tokens <= input_tokens - 1.

    host_tokens, disk_tokens, store_tokens: of the cached ones, those that were brought back from
    below the pool; not_restored: why others that are there were not.

    draft_tokens: guessed from the conversation, or forced by a grammar, and computed ahead;
    accepted_tokens: those of them that were sampled, a part of the output. kept_tokens: of the
    output, the leading ones that the conversation goes on from; a stop token and those of a stop
    text are not. None where that is not known.
    """

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    draft_tokens: int = 0
    accepted_tokens: int = 0
    kept_tokens: int | None = None
    host_tokens: int = 0
    disk_tokens: int = 0
    store_tokens: int = 0
    not_restored: str | None = None

    def __post_init__(self) -> None:
        assert min(self.device_tokens, self.computed_tokens) >= 0, f"not a sum: {self}"

    @property
    def device_tokens(self) -> int:
        """Prompt tokens that were in the pool."""
        return self.cached_tokens - self.host_tokens - self.disk_tokens - self.store_tokens

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not cached."""
        return self.input_tokens - self.cached_tokens

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """Where the cached tokens were, the nearest first, and how many; none with 0."""
        counts = (self.device_tokens, self.host_tokens, self.disk_tokens, self.store_tokens)
        return tuple((name, n) for name, n in zip(SOURCES, counts, strict=True) if n)

    @property
    def source(self) -> str | None:
        """The farthest place that something came from; None: nothing was cached."""
        return self.sources[-1][0] if self.sources else None

    def to_dict(self) -> dict[str, Any]:
        """The `usage` object of the Responses API."""
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "cache_write_tokens": self.cache_write_tokens,
            },
            "output_tokens": self.output_tokens,
            "output_tokens_details": {
                "draft_tokens": self.draft_tokens,
                "accepted_tokens": self.accepted_tokens,
                "kept_tokens": self.kept_tokens,
            },
            "total_tokens": self.input_tokens + self.output_tokens,
        }


@dataclass(frozen=True, slots=True)
class ResponseTimings:
    """Milliseconds of one response.

    ttft_ms: from accepting the turn to the first token, waiting and encoding included.
    prompt_ms: from the hand-over to the engine to the first token. predicted_ms: from the first
    token to the last. queue_ms: of prompt_ms, how long others were served first. None: the response
    ended before there was a first token. first_tokens: how many came with the first.
    """

    ttft_ms: float | None
    prompt_ms: float | None
    predicted_ms: float | None
    queue_ms: float | None = None
    first_tokens: int = 1

    @classmethod
    def between(
        cls,
        accepted_at: float,
        submitted_at: float,
        first_at: float,
        last_at: float,
        *,
        queue_seconds: float,
        first_tokens: int,
    ) -> ResponseTimings:
        """From seconds on one clock: accepted, handed to the engine, first token, last token."""
        return cls(
            ttft_ms=round((first_at - accepted_at) * 1000, 3),
            prompt_ms=round((first_at - submitted_at) * 1000, 3),
            predicted_ms=round((last_at - first_at) * 1000, 3),
            queue_ms=round(queue_seconds * 1000, 3),
            first_tokens=first_tokens,
        )

    def to_dict(self, usage: ResponseUsage) -> dict[str, Any]:
        """The `timings` object, with llama.cpp's names; draft_n: guessed or forced tokens.

        cache_n: all that were cached; cache_host_n, cache_disk_n, cache_store_n: of these, from
        below the pool.
        """
        return {
            "ttft_ms": self.ttft_ms,
            "queue_ms": self.queue_ms,
            "prompt_ms": self.prompt_ms,
            "predicted_ms": self.predicted_ms,
            "cache_n": usage.cached_tokens,
            "cache_host_n": usage.host_tokens,
            "cache_disk_n": usage.disk_tokens,
            "cache_store_n": usage.store_tokens,
            "prompt_n": usage.computed_tokens,
            "predicted_n": usage.output_tokens,
            "predicted_per_second": self.predicted_per_second(usage),
            "draft_n": usage.draft_tokens,
            "draft_n_accepted": usage.accepted_tokens,
        }

    def predicted_per_second(self, usage: ResponseUsage) -> float | None:
        """Tokens a second after the prompt's step; None where there is no later step."""
        if not self.predicted_ms or usage.output_tokens <= self.first_tokens:
            return None
        return round((usage.output_tokens - self.first_tokens) / self.predicted_ms * 1000, 3)
