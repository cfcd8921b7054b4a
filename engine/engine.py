"""`Engine`: submit, cancel, step. Synchronous, no I/O, no thread: whoever holds it drives it.

Knows no tokenizer, no template and no conversation; a request brings what makes its text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from radixchat.engine.cache_picture import CachePicture
from radixchat.engine.config import EngineConfig, EnginePlan
from radixchat.engine.device_queue import DeviceQueue
from radixchat.engine.hint import Hint, Observe, Prefetch, Purge, Supersede
from radixchat.engine.request import Request, TokenEvent
from radixchat.engine.scheduler import Scheduler
from radixchat.engine.stats import EngineSnapshot
from radixchat.engine.step_runner import StepRunner, step_runner
from radixchat.engine.tiers.disk_forgetting import principal_namespace
from radixchat.engine.tiers.open_tiers import MakeStore, open_tiers
from radixchat.engine.tiers.tiers import Tiers
from radixchat.engine.waits import Wait
from radixchat.engine.watchdog import Watchdog
from radixchat.engine.weights import Checkpoint
from radixchat.radix.allocation import PageCache
from radixchat.radix.cache import PrefixCache
from radixchat.radix.policies import make_policy
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.tiers import Tier
from radixchat.radix.uncached import UncachedPages

# How long an engine that is closed may go on writing what it has cached.
CLOSING_SECONDS = 3.0


class Engine:
    """Answers requests with one model over one pool of KV pages."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: EngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        queue: DeviceQueue | None = None,
        looks_ahead: bool = True,
        make_store: MakeStore | None = None,
        store_tier: Tier = Tier.DISK,
    ) -> None:
        """clock: seconds; what the deadlines of requests refer to. queue, looks_ahead: as in
        `step_runner`. make_store: where pages go from memory; the engine closes it. store_tier: as
        what its pages are counted.
        """
        self.plan = config.resolve(checkpoint.config, checkpoint.weights)
        self.runner: StepRunner = step_runner(checkpoint, self.plan, queue, looks_ahead=looks_ahead)
        self.tiers = open_tiers(self.plan, self.runner.pages, make_store, store_tier)
        self.cache = page_cache(self.plan, clock, self.tiers)
        self.scheduler = Scheduler(self.cache, self.plan, self.tiers)
        self._fingerprint = checkpoint.fingerprint
        self._clock = clock
        self._watchdog = Watchdog()
        self.is_still = False  # the last step moved nothing, although there is work

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do."""
        return self.scheduler.has_work

    def snapshot(self) -> EngineSnapshot:
        """The counters and the state of queue and pool, as a value for other threads."""
        return EngineSnapshot(
            counters=replace(self.scheduler.stats),
            waiting=self.scheduler.num_waiting,
            running=self.scheduler.num_running,
            pages=self.cache.num_pages,
            pages_free=self.cache.num_free_pages,
        )

    def submit(self, *requests: Request) -> None:
        """Queue requests, all or none.

        Raises InvalidRequest (PromptTooLong) or EngineOverloaded; then nothing has changed.
        """
        self.scheduler.add(*requests, now=self._clock())

    def cancel(self, request_id: int) -> None:
        """End a request; the next step reports it, with what it cost. Unknown ids are ignored."""
        self.scheduler.cancel(request_id)

    def namespace(self, secret: bytes, principal: str) -> bytes:
        """The root of one principal's KV: nobody else's is there, and no other model's.

        secret: at least 16 bytes that no principal knows.
        """
        return principal_namespace(secret, self._fingerprint, self.plan.arithmetic, principal)

    def hint(self, hint: Hint) -> None:
        """Pass on what is known of a conversation; no answer depends on it."""
        match hint:
            case Observe():
                self.cache.observe(hint.conversation, hint.signal)
            case Supersede():
                self.cache.supersede(hint.tokens, hint.start, hint.conversation, hint.namespace)
            case Purge():
                self.purge(hint)
            case Prefetch():
                if self.tiers is not None:
                    self.tiers.prefetch(hint.tokens, hint.namespace)

    def purge(self, purge: Purge) -> int:
        """Forget a deleted conversation's path; returns the bytes of KV that became free."""
        pages = self.cache.purge(
            purge.tokens, purge.conversation, purge.namespace, start=purge.start
        )
        if self.tiers is not None:
            self.tiers.forget(purge.tokens, purge.namespace, purge.start)
        return pages * self.plan.page_size * self.plan.kv_bytes_per_token

    def flush(self, namespace: bytes | None) -> int:
        """Forget what no request uses of a namespace, or of all, in every tier.

        Returns how many pages of the pool became free.
        """
        freed = self.cache.flush(namespace)
        if self.tiers is not None:
            self.tiers.flush(namespace)
        return freed

    @property
    def has_chores(self) -> bool:
        """Whether there is something to do when there is nothing else."""
        return self.tiers is not None and self.tiers.has_chores

    def do_chores(self) -> None:
        """A little of that."""
        if self.tiers is not None:
            self.tiers.collect()
            self.tiers.do_chores()

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have `tell` called, from any thread, when `collect` would find something."""
        if self.tiers is not None:
            self.tiers.tell = tell

    def collect(self) -> None:
        """Take note of what others have done for the engine meanwhile; a step begins with it."""
        if self.tiers is not None:
            self.tiers.collect()

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Give the tiers what there is to keep, as long as that takes no longer; the last call."""
        if self.tiers is not None:
            self.tiers.close(seconds)

    def picture(self, path: Sequence[int], namespace: bytes, limit: int) -> CachePicture:
        """A look at a namespace's part of the cache; changes nothing. path: whose nodes to mark."""
        views, left_out = self.cache.picture(path, namespace, limit)
        size, now = self.plan.page_size, self._clock()
        return CachePicture(
            tuple(views),
            left_out,
            now,
            pool_tokens=self.cache.num_pages * size,
            cached_tokens=self.cache.num_cached_tokens,
            free_tokens=self.cache.num_free_pages * size,
        )

    def step(self) -> list[TokenEvent]:
        """Compute one token budget's worth; what happened to each request, in order."""
        stats, began = self.scheduler.stats, time.perf_counter()
        stats.steps += 1
        if self.tiers is not None:
            self.tiers.collect()
        scheduled = self.scheduler.schedule(self._clock())
        decided = time.perf_counter()
        results = self.runner.run(scheduled) if scheduled else []
        computed = time.perf_counter()
        events = self.scheduler.update(scheduled, results, self._clock())
        if self.tiers is not None:
            self.tiers.after_step([item.num_tokens for item in scheduled], computed - decided)
        ended = time.perf_counter()
        stats.step_seconds += ended - began
        stats.schedule_seconds += decided - began + ended - computed
        self._watch(moved=bool(scheduled or events or not self.has_work))
        return events

    def waits(self) -> list[Wait]:
        """What each request waits for, those that run included."""
        return self.scheduler.waits()

    def _watch(self, *, moved: bool) -> None:
        self.is_still = not moved
        if moved:
            self._watchdog.progress()
        elif self._watchdog.still(self._clock(), self.waits):
            self.scheduler.stats.stalls += 1


def page_cache(
    plan: EnginePlan, clock: Callable[[], float], tiers: Tiers | None = None
) -> PageCache:
    """The empty cache that a plan asks for; tiers: those below it."""
    if not plan.prefix_cache:
        return UncachedPages(plan.num_pages, plan.page_size)
    policy = make_policy(plan.eviction, plan.num_pages, clock)
    leaving = None if tiers is None else tiers.leaving
    cache = PrefixCache(plan.num_pages, plan.page_size, policy, clock=clock, on_leave=leaving)
    if tiers is not None:
        tiers.attach(cache)
    return PublicPrefixCache(cache, plan.public_prefixes) if plan.public_prefixes else cache
