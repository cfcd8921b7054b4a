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


def points(rate: float, less: float) -> str:
    """How much `rate` is above `less`, in percentage points, as `percent` shows the two."""
    return f"{max(0.0, round(100 * rate, 1) - round(100 * less, 1)):.1f} points"


def counted(number: int, noun: str, shown: str | None = None) -> str:
    """1 request, 2,000 requests. shown: how the number is written, if not in full."""
    return f"{shown or f'{number:,}'} {noun}{'' if number == 1 else 's'}"


def best_at(result: ReplayResult, capacity: int | None) -> ArmResult:
    """The best of the caches of one size, our own before a simulated one that is no better."""
    arms = [arm for arm in result.arms if arm.capacity_tokens == capacity]
    return max(arms, key=lambda arm: (arm.hit_rate, arm.engine == "ours"))


def telling_capacity(result: ReplayResult) -> int | None:
    """The smallest size at which a cache saves most of what can be saved, else the largest."""
    capacities = list(dict.fromkeys(arm.capacity_tokens for arm in result.arms))
    for capacity in capacities:
        if _is_enough(result, best_at(result, capacity)):
            return capacity
    return capacities[-1]


def _is_enough(result: ReplayResult, arm: ArmResult) -> bool:
    """As the table shows it, rounded."""
    return round(100 * arm.hit_rate, 1) >= round(100 * ENOUGH * result.infinite, 1)


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
    distinct = counted(facts.distinct_tokens, "token", show_tokens(facts.distinct_tokens))
    return [
        f"An infinite cache would save {percent(result.infinite)} of the prompt tokens; it would"
        f" have to hold {distinct}.",
        _one_size(result, best),
        *_what_next(result, best),
    ]


def _one_size(result: ReplayResult, best: ArmResult) -> str:
    place = f"under {best.policy}" if best.policy else f"in a cache like {best.engine}'s"
    share = percent(best.hit_rate / result.infinite)
    part = "all of that" if share == percent(1.0) else f"{share} of that"
    gets = f"{percent(best.hit_rate)}, {part}"
    why = _why_this_size(result, best)
    if best.capacity_tokens is None:
        return f"An unlimited cache {place}{why} gets {gets}."
    return (
        f"{show_tokens(best.capacity_tokens)} tokens {place}{why} get {gets}; the best possible at"
        f" that size is {percent(best.optimum)}."
    )


def _why_this_size(result: ReplayResult, best: ArmResult) -> str:
    """In parentheses, why the summary speaks of this size; nothing where there is only one."""
    if len({arm.capacity_tokens for arm in result.arms}) == 1:
        return ""
    enough = f"{100 * ENOUGH:.0f} % of the infinite cache"
    if not _is_enough(result, best):
        return f" (the largest size here; none gets {enough})"
    if best.capacity_tokens is None:
        return f" (no smaller size here gets {enough})"
    return f" (the smallest size here that gets {enough})"


def _what_next(result: ReplayResult, best: ArmResult) -> list[str]:
    """Whether more memory or a better choice would help, and how the others did."""
    found = []
    rest = points(result.infinite, best.hit_rate)
    if rest == points(0.0, 0.0):
        found.append("Nothing is left to be gained by more memory or a better choice.")
    elif best.capacity_tokens is None:
        found.append(f"Smaller pages could add at most {rest}.")
    else:
        found.append(
            f"More memory could add at most {rest}, a better choice of what to keep (policy, or"
            f" smaller pages) at most {points(best.optimum, best.hit_rate)}."
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
        where = "Without a limit" if best.capacity_tokens is None else "At the same size"
        found.append(f"{where}: {named}.")
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
