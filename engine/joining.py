"""Whether a waiting prompt is being computed already. Pure functions of two requests."""

from __future__ import annotations

from bisect import bisect_left

from radixchat.engine.request import Request


def shares_next(running: Request, waiting: Request) -> bool:
    """Whether the prompt token that a running request computes next is part of a waiting one's."""
    known, tokens = running.num_computed, waiting.tokens
    return (
        running.namespace == waiting.namespace
        and known < min(running.num_prompt, len(tokens)) - 1
        and running.tokens[known] == tokens[known]
        and running.tokens[:known] == tokens[:known]
    )


def common_length(running: Request, waiting: Request) -> int:
    """How many leading tokens of a running request's prompt a waiting one can reuse."""
    lengths = range(min(running.num_prompt, len(waiting.tokens) - 1) + 1)
    differ = bisect_left(lengths, True, key=lambda n: running.tokens[:n] != waiting.tokens[:n])
    return differ - 1
