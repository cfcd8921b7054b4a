"""How many requests and tokens a step has at most: what is asked, and what suits the device.

Knows no model and no scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class StepBudget:
    """requests: in one step; tokens: of one step; mixed_tokens: while somebody is reading."""

    requests: int
    tokens: int
    mixed_tokens: int


DEFAULT_BUDGETS: Mapping[str, StepBudget] = MappingProxyType(
    {
        # Longer steps compute no more tokens a second (measured: DECISIONS.md).
        "cpu": StepBudget(requests=16, tokens=128, mixed_tokens=64),
        # Reckoned for an H200, not measured. A decode step waits for the weights and takes as long
        # for 64 requests as for one. 4,096 tokens of an 8B model are 0.1 s and fill its matrix
        # units; 1,024 are 30 ms, the longest that an answer beside them pauses.
        "cuda": StepBudget(requests=64, tokens=4096, mixed_tokens=1024),
    }
)


def step_budget(
    device: str, requests: int | None, tokens: int | None, mixed_tokens: int | None
) -> StepBudget:
    """What is given, each None by the device, and no step with more requests than tokens.

    Those that are given fit each other, except that mixed_tokens may be more than tokens.
    """
    default = DEFAULT_BUDGETS[device]
    given = [n for n in (tokens, mixed_tokens) if n is not None]
    if requests is None:
        requests = min((default.requests, *given))
    if tokens is None:
        tokens = max(default.tokens, requests)
    if mixed_tokens is None:
        mixed_tokens = max(default.mixed_tokens, requests)
    return StepBudget(requests, tokens, min(mixed_tokens, tokens))
