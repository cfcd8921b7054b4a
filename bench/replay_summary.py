"""What somebody can do with a replay's result: two or three sentences, and the size they speak of.

Knows the values only, neither terminal nor page.
"""

from __future__ import annotations

from radixchat.bench.capacity import show_tokens
from radixchat.bench.replay_result import ArmResult, ReplayResult

ENOUGH = 0.9
"""The size to look at is the smallest that reaches this share of the infinite cache's savings."""
_NOTHING = 0.0005


def percent(rate: float | None) -> str:
    """0.3741 as "37.4 %"; what does not exist as "-"."""
    return "-" if rate is None else f"{100 * rate:.1f} %"


def points(difference: float) -> str:
    """A difference of two rates, in percentage points."""
    return f"{100 * difference:.1f} points"


def best_at(result: ReplayResult, capacity: int | None) -> ArmResult:
    """The best of the caches of one size, our own before a simulated one that is no better."""
    arms = [arm for arm in result.arms if arm.capacity_tokens == capacity]
    return max(arms, key=lambda arm: (arm.hit_rate, arm.engine == "ours"))


def telling_capacity(result: ReplayResult) -> int | None:
    """The smallest size at which a cache saves most of what can be saved, else the largest."""
    capacities = list(dict.fromkeys(arm.capacity_tokens for arm in result.arms))
    for capacity in capacities:
        if best_at(result, capacity).hit_rate >= ENOUGH * result.infinite:
            return capacity
    return capacities[-1]


def sentences(result: ReplayResult) -> list[str]:
    """What the replay says: what a cache can save, what one size gets of it, and what next."""
    facts = result.facts
    if result.infinite < _NOTHING:
        return [
            "No prompt repeats the beginning of an earlier one: a prefix cache would save nothing"
            " here, whatever its size."
        ]
    capacity = telling_capacity(result)
    best = best_at(result, capacity)
    return [
        f"An infinite cache would save {percent(result.infinite)} of the prompt tokens; it would"
        f" have to hold {show_tokens(facts.distinct_tokens)} tokens.",
        _one_size(result, best),
        *_what_next(result, best),
    ]


def _one_size(result: ReplayResult, best: ArmResult) -> str:
    size = show_tokens(best.capacity_tokens)
    tokens = f"{size} tokens" if best.capacity_tokens else "No limit"
    gets = "get" if best.capacity_tokens else "gets"
    place = f"under {best.policy}" if best.policy else f"in a cache like {best.engine}'s"
    share = f"{100 * best.hit_rate / result.infinite:.0f} % of that"
    text = f"{tokens} {place} {gets} {percent(best.hit_rate)}, {share}"
    if best.capacity_tokens is None:
        return text + "."
    return f"{text}; the best possible at that size is {percent(best.optimum)}."


def _what_next(result: ReplayResult, best: ArmResult) -> list[str]:
    """Whether more memory or another policy would help, and how the others did."""
    found = []
    rest = result.infinite - best.hit_rate
    if rest < _NOTHING:
        found.append("Nothing is left to be gained by more memory or another policy.")
    else:
        policy = max(0.0, best.optimum - best.hit_rate)
        found.append(
            f"More memory could add at most {points(rest)}, another policy at that size at most"
            f" {points(policy)}."
        )
    enough = _foresight(result, best)
    if enough is not None:
        found.append(f"Knowing the future, {show_tokens(enough)} tokens would get as much.")
    others = [
        arm for arm in result.arms if arm.capacity_tokens == best.capacity_tokens and arm != best
    ]
    if others:
        others.sort(key=lambda arm: -arm.hit_rate)
        named = ", ".join(f"{arm.policy or arm.engine} {percent(arm.hit_rate)}" for arm in others)
        found.append(f"At the same size: {named}.")
    return found


def _foresight(result: ReplayResult, best: ArmResult) -> int | None:
    """The smallest size at which the optimum is no worse than `best`; None: none is smaller."""
    if best.hit_rate < _NOTHING:
        return None
    sizes = [
        arm.capacity_tokens
        for arm in result.arms
        if arm.capacity_tokens is not None
        and (best.capacity_tokens is None or arm.capacity_tokens < best.capacity_tokens)
        and arm.optimum >= best.hit_rate
    ]
    return min(sizes, default=None)
