"""Eviction policies on one trace: what each reaches at each capacity, and how near to the best.

Owns the contenders, what each of them gets to hear, and the rates; the caches are the real ones
of `ours.py`. It knows neither the generator nor how a result is shown. All caches serve the trace
side by side in one pass, so a generated or a streamed trace is never held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.oracles import OfflineOptimum
from radixchat.bench.ours import OurCache
from radixchat.bench.replay_census import Census
from radixchat.bench.trace_item import TraceItem, TraceRequest, TraceSignal
from radixchat.radix.use import Signal


class Traffic(Protocol):
    """A `Trace` or a `ChatWorkload`: iterable again and again."""

    name: str
    unit_tokens: int

    def __iter__(self) -> Iterator[TraceItem]:
        """From the start."""


class Hearing(StrEnum):
    """What reaches the policy of what clients tell."""

    ALL = "everything"
    ENDS = "only what is closed or left behind"
    NOTHING = "nothing but who asks"


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy by name, and what it hears."""

    label: str
    policy: str
    hearing: Hearing = Hearing.ALL


CONTENDERS = (
    Contender("lru", "lru"),
    Contender("slru", "slru"),
    Contender("tlru", "tlru"),
    Contender("chat", "chat"),
    Contender("chat, hears only ends", "chat", Hearing.ENDS),
    Contender("chat, hears no client", "chat", Hearing.NOTHING),
)


@dataclass(frozen=True, slots=True)
class CapacityRates:
    """One capacity; rates are fractions of the trace's input tokens.

    share: of the distinct tokens. policies: hit rate by the contender's label. too_long: requests
    larger than the cache, which every contender misses.
    """

    share: float
    capacity_tokens: int
    optimum: float
    policies: dict[str, float]
    too_long: int


@dataclass(frozen=True, slots=True)
class Study:
    """One trace. tokens: of all prompts. infinite: the rate of an unlimited cache."""

    name: str
    requests: int
    tokens: int
    distinct_tokens: int
    infinite: float
    capacities: tuple[CapacityRates, ...]


def gap_closed(rate: float, lru: float, optimum: float) -> float | None:
    """How much of the way from `lru` to `optimum` a rate has gone; None where there is no way."""
    return (rate - lru) / (optimum - lru) if optimum - lru > 1e-9 else None


def study(
    traffic: Traffic, contenders: Sequence[Contender], shares: Sequence[float], page_size: int
) -> Study:
    """Serve the traffic with every contender at every share of its distinct tokens.

    page_size: in units. Raises ValueError when the traffic has no request, or a capacity would
    be less than one page.
    """
    census = Census(traffic.unit_tokens)
    optimum = OfflineOptimum(census.counted(traffic))
    if not len(census):
        raise ValueError(f"{traffic.name}: the traffic has no request")
    distinct = optimum.distinct_units
    pages = [int(share * distinct) // page_size for share in shares]
    for share, count in zip(shares, pages, strict=True):
        if count < 1:
            raise ValueError(
                f"{share:.2%} of {distinct} distinct units is less than a page of {page_size}"
            )
    caches = [[OurCache(count, page_size, each.policy) for each in contenders] for count in pages]
    found = _serve(traffic, contenders, caches)
    return Study(
        traffic.name,
        len(census),
        census.tokens,
        distinct * traffic.unit_tokens,
        census.hit_rate(optimum.infinite.cached_units),
        tuple(
            CapacityRates(
                share,
                count * page_size * traffic.unit_tokens,
                census.hit_rate(optimum.run(count * page_size).cached_units),
                {
                    each.label: census.hit_rate(cached)
                    for each, cached in zip(contenders, by, strict=True)
                },
                row[0].too_long,
            )
            for share, count, row, by in zip(shares, pages, caches, found, strict=True)
        ),
    )


def heard(item: TraceItem, hearing: Hearing) -> TraceItem | None:
    """What is left of an item; None: nothing."""
    if hearing is Hearing.ALL:
        return item
    if isinstance(item, TraceSignal):
        ends = hearing is Hearing.ENDS and item.signal is Signal.CLOSED
        return item if ends else None
    if hearing is Hearing.NOTHING and item.superseded is not None:
        return replace(item, superseded=None)
    return item


def _serve(
    traffic: Traffic, contenders: Sequence[Contender], caches: Sequence[Sequence[OurCache]]
) -> NDArray[np.int64]:
    """Units found: int64 [capacities, contenders, requests]."""
    found: list[list[list[int]]] = [[[] for _ in contenders] for _ in caches]
    for item in traffic:
        for column, contender in enumerate(contenders):
            told = heard(item, contender.hearing)
            for row, cells in zip(caches, found, strict=True):
                if isinstance(told, TraceRequest):
                    cells[column].append(row[column].serve(told))
                elif told is not None:
                    row[column].signal(told)
    return np.array(found, np.int64)
