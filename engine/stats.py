"""Counters of one engine since it started, and their frozen copies for other threads.

Plain integers; whoever shows them computes ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.engine.request import FinishReason, Request


@dataclass(slots=True)
class EngineStats:
    """Tokens and events so far.

    prompt_tokens and cached_tokens are those of the requests that ended, as in their Usage: a
    recomputation after a preemption is counted in neither, but in computed_tokens, which are all
    that a step computed (without drafts). expired: ended by their deadline. stalls: times that
    nothing moved for long. step_seconds: in steps; schedule_seconds: of these, in the scheduler and
    the cache.
    """

    steps: int = 0
    requests: int = 0
    cancelled: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    computed_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    preemptions: int = 0
    expired: int = 0
    stalls: int = 0
    step_seconds: float = 0.0
    schedule_seconds: float = 0.0

    def finish(self, request: Request, reason: FinishReason) -> None:
        """Count a request that ended."""
        usage = request.usage()
        self.requests += 1
        self.cancelled += reason is FinishReason.CANCELLED
        self.expired += reason is FinishReason.DEADLINE
        self.prompt_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.output_tokens += usage.output_tokens - request.num_resumed


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """A copy of the counters, and the state of queue and pool, after one step."""

    counters: EngineStats
    waiting: int
    running: int
    pages: int
    pages_free: int
