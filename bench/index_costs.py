"""What single operations of the index cost: match, insert, evict, each at a given number of leaves.

Times are wall-clock microseconds, medians of repeats. Knows no command line.

The two controls say what the structure is worth on the same machine in the same run: a trie that
is walked token by token, against match; and an order of the leaves that is built when a page is
needed, as engines do that keep none, against evict.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify
from statistics import median
from typing import TypeAlias, TypeVar

import numpy as np

from radixchat.bench.index_tree import LONG, PAGE_SIZE, GrownIndex, Prompt, hold, serve

_Prompt = TypeVar("_Prompt", Prompt, list[int])
_Trie: TypeAlias = "dict[int, _Trie]"

NEW_TAIL = 128
_BULK = 256  # pages asked for at once


@dataclass(frozen=True, slots=True)
class PathCosts:
    """Match and insert in a tree of `nodes` nodes; microseconds."""

    leaves: int
    nodes: int
    match_list_us: float
    match_array_us: float
    trie_us: float  # the control
    insert_us: float  # the whole of it: allocate, commit, release


@dataclass(frozen=True, slots=True)
class EvictionCosts:
    """Microseconds per page, in a tree of `leaves` leaves, one page and 256 pages at a time."""

    policy: str
    leaves: int
    evict_us: float
    evict_many_us: float
    take_us: float  # a page that was free, for comparison
    rebuild_us: float  # the control


def path_costs(num_leaves: int, seed: int, repeats: int) -> PathCosts:
    """Match prompts of 2,048 tokens that are cached; insert such with a new tail of 128."""
    spare = repeats * (NEW_TAIL // PAGE_SIZE + 1) + LONG // PAGE_SIZE
    index = GrownIndex(num_leaves, "lru", seed, spare)
    cache, nodes = index.cache, index.cache.num_nodes
    arrays = list(index.long)
    lists: list[list[int]] = [prompt.tolist() for prompt in arrays]
    assert all(cache.match(prompt).length == LONG for prompt in arrays)
    trie = _trie(lists)
    tails = index.tokens(repeats, NEW_TAIL)
    prompts = [
        np.concatenate([arrays[number % len(arrays)][: LONG - NEW_TAIL], tail])
        for number, tail in enumerate(tails)
    ]
    return PathCosts(
        num_leaves,
        nodes,
        _median_us(cache.match, lists, repeats),
        _median_us(cache.match, arrays, repeats),
        _median_us(lambda prompt: _walk(trie, prompt), lists, repeats),
        _median_us(lambda prompt: serve(cache, prompt, "inserted"), prompts, repeats),
    )


def eviction_costs(policy: str, num_leaves: int, seed: int, repeats: int) -> EvictionCosts:
    """Take page after page while none is free; each repeat is the mean of a few dozen pages."""
    batch = max(8, min(64, num_leaves // 16))
    index = GrownIndex(num_leaves, policy, seed, spare_pages=batch * (repeats + 1))
    cache = index.cache
    pages = Pages(index)
    take_us = median(pages.take_one_by_one(batch) for _ in range(repeats))
    pages.take_all_that_is_free()
    rebuild_us = median(_rebuild_us(index) for _ in range(3))
    evictable = cache.num_evictable_pages
    evict_us = median(pages.take_one_by_one(batch) for _ in range(repeats))
    assert evictable - cache.num_evictable_pages == batch * repeats, "a page, and no more"
    many = min(_BULK, cache.num_evictable_pages // 8)
    evict_many_us = median(pages.take(many) for _ in range(5))
    return EvictionCosts(policy, num_leaves, evict_us, evict_many_us, take_us, rebuild_us)


class Pages:
    """A live request that takes the pages that are measured."""

    def __init__(self, index: GrownIndex) -> None:
        self._cache = index.cache
        self._request = hold(index.cache, np.full(1, -1, np.int32))

    def take_all_that_is_free(self) -> None:
        """So that each page more has to be evicted."""
        if self._cache.num_free_pages:
            self.take(self._cache.num_free_pages)

    def take_one_by_one(self, count: int) -> float:
        """Microseconds per page."""
        return sum(self.take(1) for _ in range(count)) / count

    def take(self, count: int) -> float:
        """`count` pages at once; microseconds per page."""
        length = (len(self._request.pages) + count) * PAGE_SIZE
        started = time.perf_counter_ns()
        granted = self._cache.extend(self._request, length)
        elapsed = time.perf_counter_ns() - started
        assert granted, f"no room for {count} pages more"
        return elapsed / 1000 / count


def _median_us(
    operation: Callable[[_Prompt], object], prompts: list[_Prompt], repeats: int
) -> float:
    times = []
    for number in range(repeats):
        prompt = prompts[number % len(prompts)]
        started = time.perf_counter_ns()
        operation(prompt)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1000


def _trie(prompts: list[list[int]]) -> _Trie:
    root: _Trie = {}
    for prompt in prompts:
        node = root
        for token in prompt:
            node = node.setdefault(token, {})
    return root


def _walk(trie: _Trie, prompt: list[int]) -> int:
    length = 0
    for token in prompt:
        child = trie.get(token)
        if child is None:
            break
        trie = child
        length += 1
    return length


def _rebuild_us(index: GrownIndex) -> float:
    """Find the first leaf to go by looking at all of them."""
    started = time.perf_counter_ns()
    order = [(leaf.use.stamp, id(leaf)) for leaf in index.policy.leaves()]
    heapify(order)
    return (time.perf_counter_ns() - started) / 1000
