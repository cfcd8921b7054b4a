"""Whether a waiting prompt is being computed already. Knows two requests; no queue and no cache."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from radixchat.engine.request import Request

# A request waits for another that is computing its prompt during at most so many steps: 8k tokens
# in chunks of 128. The other may get slower meanwhile, or give up.
MAX_JOIN_STEPS = 64


def joins(request: Request, running: Iterable[Request], step: int) -> bool:
    """Whether to wait: a running request is about to compute tokens that this one begins with.

    Each chunk is committed, so waiting for it costs this request nothing that it would not have to
    compute itself. Those behind it in the line do not wait with it. step: a number that grows by
    one a step.
    """
    other = request.joined
    if other is None or other.allocation is None or other.num_computed >= request.joined_length:
        request.joined = next((r for r in running if shares_next(r, request)), None)
        if request.joined is None:
            return False
        request.joined_length = common_length(request.joined, request)
    if request.joined_at is None:
        request.joined_at = step
    return step - request.joined_at < MAX_JOIN_STEPS


def shares_next(running: Request, waiting: Request) -> bool:
    """Whether the prompt token that a running request computes next is part of a waiting one's."""
    known, tokens = running.num_computed, waiting.tokens
    return (
        running.namespace == waiting.namespace
        and running.priority >= waiting.priority  # a lower one may have to make room itself
        and known < min(running.num_prompt, len(tokens)) - 1
        and running.tokens[known] == tokens[known]
        and running.tokens[:known] == tokens[:known]
    )


def common_length(running: Request, waiting: Request) -> int:
    """How many leading tokens of a running request's prompt a waiting one can reuse."""
    lengths = range(min(running.num_prompt, len(waiting.tokens) - 1) + 1)
    differ = bisect_left(lengths, True, key=lambda n: running.tokens[:n] != waiting.tokens[:n])
    return differ - 1
