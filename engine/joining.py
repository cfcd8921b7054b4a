"""Whether a waiting prompt is being computed already. Knows two requests; no queue and no cache."""

from __future__ import annotations

from collections.abc import Iterable

from radixchat.engine.common_prefix import common_prefix
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
    if not is_ahead(request):
        request.joined = next((r for r in running if shares_next(r, request)), None)
        if request.joined is None:
            return False
        other = request.joined
        common = common_prefix(other.tokens[: other.num_prompt], request.tokens)
        request.joined_length = min(common, len(request.tokens) - 1)
    if request.joined_at is None:
        request.joined_at = step
    return step - request.joined_at < MAX_JOIN_STEPS


def is_ahead(request: Request) -> bool:
    """Whether the one that a request has joined still computes what they have in common."""
    other = request.joined
    return (
        other is not None
        and other.allocation is not None
        and other.num_computed < request.joined_length
    )


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
