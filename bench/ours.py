"""`OurCache`: the real `PrefixCache` as an arm of the benchmark, with its times and its memory.

Nothing is simulated but the engine around it: a clock that shows the request's time, and a
forward pass that takes none. A request is served the way `engine/scheduler.py` does it: match,
allocate, commit the prompt, commit the reply, release; only that the pages for the reply are
taken together with those for the prompt, which the reference LRU does as well. Knows no trace
format and no other engine.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from statistics import median
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.arm import computed_path
from radixchat.bench.index_memory import reachable_bytes
from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.radix.allocation import Allocation
from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import RecentEvictions
from radixchat.radix.policies import make_policy
from radixchat.radix.use import Signal


class ReplayClock:
    """Shows the time that the trace is at, in seconds."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class LastPaths:
    """What each conversation had in the cache last, so that a branch can be named when it is left.

    A closed conversation is forgotten, and beyond `limit` units the conversation that was silent
    longest: it can no longer say which branch it leaves, and that branch ages like any other.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_units = 0
        self._paths: OrderedDict[str, tuple[bytes, NDArray[np.int32]]] = OrderedDict()

    def keep(self, conversation: str, namespace: bytes, path: NDArray[np.int32]) -> None:
        """Replace what is kept of a conversation."""
        self.forget(conversation)
        self._paths[conversation] = (namespace, path)
        self._num_units += len(path)
        while self._num_units > self._limit:
            self.forget(next(iter(self._paths)))

    def get(self, conversation: str) -> tuple[bytes, NDArray[np.int32]] | None:
        """Namespace and path, if they are kept."""
        return self._paths.get(conversation)

    def forget(self, conversation: str) -> None:
        """Keep nothing of it."""
        if (kept := self._paths.pop(conversation, None)) is not None:
            self._num_units -= len(kept[1])


class EvictionTime:
    """What evicting costs, from the times of calls that do it besides other work.

    The index has no call that only evicts. So: the time of all calls that evicted, less for each
    of them the median time of the same call when it had nothing to evict.
    """

    def __init__(self) -> None:
        self.num_pages = 0
        self._num_calls = 0
        self._total_ns = 0
        self._plain_ns = array("q")

    def add(self, elapsed_ns: int, num_pages: int) -> None:
        """One call that evicted `num_pages` pages, or none."""
        if num_pages == 0:
            self._plain_ns.append(elapsed_ns)
            return
        self.num_pages += num_pages
        self._num_calls += 1
        self._total_ns += elapsed_ns

    def total_ns(self) -> float:
        """The part of all evicting calls that was eviction."""
        plain = median(self._plain_ns) if self._plain_ns else 0
        return max(0.0, self._total_ns - self._num_calls * plain)


class OurCache:
    """The prefix cache of this project under one policy.

    replies_left_out: where a match that ends in mid-page pins a page more, a small pool may hold
    the prompt and not the reply; then the reply is not kept.
    """

    name = "ours"
    ignores = ""

    def __init__(self, num_pages: int, page_size: int, policy: str) -> None:
        self.page_size = page_size
        self.policy = policy
        self.too_long = 0
        self.replies_left_out = 0
        self._clock = ReplayClock()
        order = make_policy(policy, num_pages, self._clock)
        self.cache = PrefixCache(num_pages, page_size, order, clock=self._clock)
        # A conversation that is still cached is among the last of four times the capacity,
        # unless a policy favours it: then its left branch ages, which is all that is lost.
        self._paths = LastPaths(4 * num_pages * page_size)
        self._match_ns = self._num_matches = 0
        self._insert_ns = self._num_inserts = 0
        self._allocating, self._extending = EvictionTime(), EvictionTime()

    @property
    def num_cached_units(self) -> int:
        """Units in the tree."""
        return self.cache.num_cached_tokens

    @property
    def evicted_units(self) -> int:
        """Units of the pages that were evicted, whole pages counted."""
        return (self._allocating.num_pages + self._extending.num_pages) * self.page_size

    @property
    def us_per_match(self) -> float | None:
        """Mean time of `match` on the prompt; None before the first."""
        return self._match_ns / self._num_matches / 1000 if self._num_matches else None

    @property
    def us_per_insert(self) -> float | None:
        """Mean time of `commit`, of a prompt or a reply; None before the first."""
        return self._insert_ns / self._num_inserts / 1000 if self._num_inserts else None

    @property
    def us_per_evicted_page(self) -> float | None:
        """Mean time to evict a page, as `EvictionTime` has it; None if none was evicted."""
        num_pages = self._allocating.num_pages + self._extending.num_pages
        if num_pages == 0:
            return None
        return (self._allocating.total_ns() + self._extending.total_ns()) / num_pages / 1000

    def index_bytes_per_unit(self) -> float | None:
        """Memory of tree, pool and policy for each unit cached now; None when nothing is.

        Without the ring of recent evictions: it explains misses and finds nothing, and has a
        fixed bound of its own, a few MiB, which would drown the rest in a small cache.
        """
        cached = self.cache.num_cached_tokens
        return reachable_bytes(self.cache, (RecentEvictions,)) / cached if cached else None

    def serve(self, request: TraceRequest) -> int:
        """Match, allocate, commit, release."""
        path = computed_path(request)
        if -(-len(path) // self.page_size) > self.cache.num_pages:
            self.too_long += 1
            return 0
        self._clock.now = request.time
        self._supersede(request)
        begin = perf_counter_ns()
        self.cache.match(request.prompt, request.namespace)
        self._match_ns += perf_counter_ns() - begin
        self._num_matches += 1
        allocation = self._allocate(request)
        if not self._extend(allocation, len(path)):
            self.replies_left_out += 1
            path = request.prompt
        found = allocation.num_cached
        self._observe(request, Signal.STARTED)
        allocation.copies.clear()  # there is no K/V to copy
        self._commit(allocation, request.prompt)
        if len(path) > len(request.prompt):
            self._commit(allocation, path)
        self.cache.release(allocation)
        self._observe(request, Signal.FINISHED)
        if request.conversation is not None:
            self._paths.keep(request.conversation, request.namespace, path)
        return found

    def signal(self, signal: TraceSignal) -> None:
        """Pass it on to the policy."""
        self._clock.now = signal.time
        self.cache.observe(signal.conversation, signal.signal)
        if signal.signal is Signal.CLOSED:
            self._paths.forget(signal.conversation)

    def _observe(self, request: TraceRequest, signal: Signal) -> None:
        if request.conversation is not None:
            self.cache.observe(request.conversation, signal)

    def _supersede(self, request: TraceRequest) -> None:
        """Tell of the branch that this request's conversation leaves, if it leaves one."""
        if request.superseded is None or request.conversation is None:
            return
        if (kept := self._paths.get(request.conversation)) is not None:
            namespace, path = kept
            self.cache.supersede(path, request.superseded, request.conversation, namespace)

    def _allocate(self, request: TraceRequest) -> Allocation:
        before = self.cache.num_cached_pages
        begin = perf_counter_ns()
        allocation = self.cache.allocate(request.prompt, request.namespace, request.conversation)
        elapsed = perf_counter_ns() - begin
        assert allocation is not None, "a request that fits is alone"
        self._allocating.add(elapsed, before - self.cache.num_cached_pages)
        return allocation

    def _extend(self, allocation: Allocation, num_units: int) -> bool:
        if num_units <= len(allocation.pages) * self.page_size:
            return True
        before = self.cache.num_cached_pages
        begin = perf_counter_ns()
        extended = self.cache.extend(allocation, num_units)
        elapsed = perf_counter_ns() - begin
        self._extending.add(elapsed, before - self.cache.num_cached_pages)
        return extended

    def _commit(self, allocation: Allocation, units: NDArray[np.int32]) -> None:
        begin = perf_counter_ns()
        self.cache.commit(allocation, units)
        self._insert_ns += perf_counter_ns() - begin
        self._num_inserts += 1
