"""What long use does to the index: churn, growth, depth, memory, the garbage collector's pauses.

Memory is the process' own where the system tells it (/proc), and Python's by tracemalloc for the
bytes per cached token. Pauses are in CPU time, which another program cannot lengthen. Knows no
command line.
"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from radixchat.bench.index_tree import PAGE_SIZE, Prompt, chats, hold, make_cache, serve
from radixchat.radix.use import Signal

_STATM = Path("/proc/self/statm")
_PREFIX = 512
_WARM_UP = 1_000  # suffixes before the churn: the pool is full, as is the ring of recent evictions
_YOUNG_EVERY = 100  # requests between two collections by hand


@dataclass(frozen=True, slots=True)
class Churn:
    """Suffixes on one prefix, in a small pool. Resident memory is None where it is not told."""

    suffixes: int
    us_per_suffix: float
    nodes_before: int
    nodes_after: int
    resident_before: int | None
    resident_after: int | None


@dataclass(frozen=True, slots=True)
class Growth:
    """One request that grows token by token, and prompts each one token longer; microseconds."""

    tokens: int
    first_us: float  # a token, in the first tenth
    last_us: float  # in the last
    prompts_us: float  # a prompt
    prompts_nodes: int  # when all are served
    depth: int  # nodes above one another, when branches leave at each token
    deep_match_us: float  # of all that depth


@dataclass(frozen=True, slots=True)
class Footprint:
    """Python's memory per cached token; the pool's share is of exactly the pages in use."""

    policy: str
    edge: int  # tokens of a leaf
    bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Pauses:
    """Collections while the tree grows to `nodes` and half as many replace others; CPU ms.

    by_hand: automatic collection is off, and the young are collected every 100 requests.
    """

    policy: str
    nodes: int
    by_hand: bool
    count: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    total_ms: float


def churn(suffixes: int, seed: int) -> Churn:
    """Serve suffixes of 64 tokens on a prefix of 512, in a pool for 90 of them."""
    rng = np.random.default_rng(seed)
    cache = make_cache("lru", _PREFIX // PAGE_SIZE + 90 * 4)
    prompts = chats(rng, _WARM_UP + suffixes, _prefix(rng))
    for _ in range(_WARM_UP):
        serve(cache, next(prompts))
    nodes, resident = cache.num_nodes, _resident()
    started = time.perf_counter()
    for prompt in prompts:
        serve(cache, prompt)
    elapsed = (time.perf_counter() - started) * 1e6
    return Churn(suffixes, elapsed / suffixes, nodes, cache.num_nodes, resident, _resident())


def growth(tokens: int, seed: int) -> Growth:
    """Grow one request, then prompts each one token longer, then a branch at each token."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, 50_000, tokens, dtype=np.int32)
    num_pages = 3 * tokens + 3
    cache = make_cache("lru", num_pages)
    request = hold(cache, prompt[:1])
    times = []
    for end in range(1, tokens + 1):
        started = time.perf_counter_ns()
        cache.extend(request, end)
        cache.commit(request, prompt[:end])
        times.append(time.perf_counter_ns() - started)
    cache.release(request)
    tenth = max(1, tokens // 10)
    cache.flush()
    started = time.perf_counter_ns()
    for end in range(1, tokens + 1):
        serve(cache, prompt[:end])
    prompts_us = (time.perf_counter_ns() - started) / 1000 / tokens
    nodes = cache.num_nodes
    for end in range(tokens - 1, 0, -1):  # from the tip up, so that no path is long yet
        serve(cache, np.append(prompt[:end], np.int32(-1)))
    assert cache.num_nodes == 2 * tokens - 1
    deep_us = median(_time_us(lambda: cache.match(prompt)) for _ in range(5))
    assert cache.match(prompt).length == tokens
    cache.flush()
    assert cache.num_free_pages == num_pages, "pages are lost"
    first, last = median(times[:tenth]) / 1000, median(times[-tenth:]) / 1000
    return Growth(tokens, first, last, prompts_us, nodes, tokens, deep_us)


def footprint(policy: str, edge: int, leaves: int, seed: int) -> Footprint:
    """Bytes of a cache full of chats, a conversation each, with `edge` tokens of their own."""
    rng = np.random.default_rng(seed)
    system = rng.integers(0, 50_000, (16, 64), dtype=np.int32)
    num_pages = (16 * 64 + leaves * edge) // PAGE_SIZE + leaves
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache = make_cache(policy, num_pages)
        for number, prompt in enumerate(chats(rng, leaves, system, edge)):
            serve(cache, prompt, f"chat {number}")
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return Footprint(policy, edge, held / cache.num_cached_tokens)


def pauses(policy: str, nodes: int, seed: int, *, by_hand: bool) -> Pauses:
    """Watch the collector while a tree grows to `nodes`, and half as many again come and go."""
    rng = np.random.default_rng(seed)
    cache = make_cache(policy, _PREFIX // PAGE_SIZE + 4 * nodes)
    prompts = chats(rng, nodes + nodes // 2, _prefix(rng))
    watch = _CollectorWatch()
    gc.collect()
    automatic = gc.isenabled()
    gc.callbacks.append(watch)
    try:
        (gc.disable if by_hand else gc.enable)()
        for number, prompt in enumerate(prompts):
            serve(cache, prompt, f"chat {number}")
            if number % 4 == 0:
                cache.observe(f"chat {number}", Signal.CLOSED)
            if by_hand and number % _YOUNG_EVERY == 0:
                gc.collect(1)
    finally:
        gc.callbacks.remove(watch)
        (gc.enable if automatic else gc.disable)()
    times = sorted(watch.pauses) or [0.0]
    middle, percentile = times[len(times) // 2], times[int(len(times) * 0.99)]
    count = len(watch.pauses)
    return Pauses(policy, nodes, by_hand, count, middle, percentile, times[-1], sum(times))


class _CollectorWatch:
    """Times every collection, in CPU milliseconds."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._started = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = time.thread_time()
        else:
            self.pauses.append((time.thread_time() - self._started) * 1000)


def _prefix(rng: np.random.Generator) -> Prompt:
    return rng.integers(0, 50_000, (1, _PREFIX), dtype=np.int32)


def _time_us(operation: Callable[[], object]) -> float:
    started = time.perf_counter_ns()
    operation()
    return (time.perf_counter_ns() - started) / 1000


def _resident() -> int | None:
    """Bytes of memory that the process has."""
    if not _STATM.exists():
        return None
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
