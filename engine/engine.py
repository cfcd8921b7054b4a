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
from radixchat.engine.hint import Hint, Observe, Purge, Supersede
from radixchat.engine.request import Request, TokenEvent
from radixchat.engine.scheduler import Scheduler
from radixchat.engine.stats import EngineSnapshot
from radixchat.engine.step_runner import StepRunner, step_runner
from radixchat.engine.waits import Wait
from radixchat.engine.watchdog import Watchdog
from radixchat.engine.weights import Checkpoint
from radixchat.radix.allocation import PageCache
from radixchat.radix.cache import PrefixCache
from radixchat.radix.namespace import derive_namespace
from radixchat.radix.policies import make_policy
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.uncached import UncachedPages


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
    ) -> None:
        """clock: seconds; what the deadlines of requests refer to. queue, looks_ahead: as in
        `step_runner`.
        """
        self.plan = config.resolve(checkpoint.config, checkpoint.weights)
        self.cache = page_cache(self.plan, clock)
        self.scheduler = Scheduler(self.cache, self.plan)
        self.runner: StepRunner = step_runner(checkpoint, self.plan, queue, looks_ahead=looks_ahead)
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
        parts = (self._fingerprint, self.plan.arithmetic, principal)
        return derive_namespace(secret, *(part.encode() for part in parts))

    def hint(self, hint: Hint) -> None:
        """Pass on what is known of a conversation; no answer depends on it."""
        match hint:
            case Observe():
                self.cache.observe(hint.conversation, hint.signal)
            case Supersede():
                self.cache.supersede(hint.tokens, hint.start, hint.conversation, hint.namespace)
            case Purge():
                self.purge(hint)

    def purge(self, purge: Purge) -> int:
        """Forget a deleted conversation's path; returns the bytes of KV that became free."""
        pages = self.cache.purge(
            purge.tokens, purge.conversation, purge.namespace, start=purge.start
        )
        return pages * self.plan.page_size * self.plan.kv_bytes_per_token

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
        scheduled = self.scheduler.schedule(self._clock())
        decided = time.perf_counter()
        results = self.runner.run(scheduled) if scheduled else []
        computed = time.perf_counter()
        events = self.scheduler.update(scheduled, results, self._clock())
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


def page_cache(plan: EnginePlan, clock: Callable[[], float]) -> PageCache:
    """The empty cache that a plan asks for."""
    if not plan.prefix_cache:
        return UncachedPages(plan.num_pages, plan.page_size)
    policy = make_policy(plan.eviction, plan.num_pages, clock)
    cache = PrefixCache(plan.num_pages, plan.page_size, policy, clock=clock)
    return PublicPrefixCache(cache, plan.public_prefixes) if plan.public_prefixes else cache
