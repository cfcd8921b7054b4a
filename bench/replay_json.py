"""A replay's result as one JSON line, for scripts: keys that stay, and null for what is not."""

from __future__ import annotations

import json

from radixchat.bench.replay_result import ArmResult, ReplayResult

_RATE_DIGITS = 6
_COST_DIGITS = 3


def replay_json(result: ReplayResult) -> str:
    """One line, in ASCII. Rates are fractions of the input tokens."""
    return json.dumps(
        {
            "trace": result.facts.name,
            "requests": result.facts.requests,
            "tokens": result.facts.tokens,
            "arms": [_arm(arm) for arm in result.arms],
            "commit": result.commit,
            "machine": result.machine,
        }
    )


def _arm(arm: ArmResult) -> dict[str, object]:
    turns = [
        {
            "turn": rate.turn,
            "requests": rate.requests,
            "tokens": rate.tokens,
            "hit_rate": _rounded(rate.hit_rate, _RATE_DIGITS),
        }
        for rate in arm.per_turn or ()
    ]
    return {
        "engine": arm.engine,
        "policy": arm.policy,
        "page_size": arm.page_size,
        "capacity_tokens": arm.capacity_tokens,
        "hit_rate": _rounded(arm.hit_rate, _RATE_DIGITS),
        "reference_lru": _rounded(arm.reference_lru, _RATE_DIGITS),
        "optimum": _rounded(arm.optimum, _RATE_DIGITS),
        "infinite": _rounded(arm.infinite, _RATE_DIGITS),
        "evicted_tokens": arm.evicted_tokens,
        "us_per_match": _rounded(arm.us_per_match, _COST_DIGITS),
        "us_per_insert": _rounded(arm.us_per_insert, _COST_DIGITS),
        "us_per_evicted_page": _rounded(arm.us_per_evicted_page, _COST_DIGITS),
        "index_bytes_per_token": _rounded(arm.index_bytes_per_token, _COST_DIGITS),
        "per_turn": turns or None,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
