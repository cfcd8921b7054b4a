"""`GET /metrics`: the counts of `Metrics` and of the engine, in Prometheus' text format.

Owns the names (protocol §3.8) and what of the engine's state they show. The engine is asked on
its own thread; while a long step keeps it from answering, or when it has died, the last known
figures are shown. Knows no sessions: there is nothing here that names one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from radixchat.engine.errors import EngineStopped
from radixchat.engine.stats import EngineSnapshot
from radixchat.server.metric_family import counter, counters, gauge, gauges, histogram, labelled
from radixchat.server.metrics import CACHE_LABELS, Metrics
from radixchat.server.tier_figures import TierFigures, read_tiers, tier_metrics

if TYPE_CHECKING:
    from radixchat.engine.engine import Engine
    from radixchat.server.host import ChatHost

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# A step of a long prompt on a slow machine; a scraper gives up after ten seconds.
PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """A snapshot, and what only the engine's thread can tell of the cache, in tokens."""

    snapshot: EngineSnapshot
    evictable: int = 0
    cached: int = 0
    evicted: int = 0
    nodes: int = 0
    page_size: int = 1


def read_figures(engine: Engine) -> EngineFigures:
    """The figures, on the engine's thread."""
    cache = engine.cache
    return EngineFigures(
        snapshot=engine.snapshot(),
        evictable=cache.num_evictable_pages * cache.page_size,
        cached=cache.num_cached_tokens,
        evicted=cache.num_evicted_tokens,
        nodes=cache.num_nodes,
        page_size=cache.page_size,
    )


class Exposition(Collector):
    """What a scrape shows: `text` for a scraper."""

    def __init__(self, host: ChatHost, metrics: Metrics, version: str) -> None:
        self._host = host
        self._metrics = metrics
        self._version = version
        self._figures = EngineFigures(host.engine.snapshot, page_size=host.plan.page_size)
        self._tiers: TierFigures | None = None
        # A registry of its own: the library's default one is global.
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """All series now."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._figures = await self._host.engine.ask(read_figures)
                self._tiers = await read_tiers(self._host)
        except (TimeoutError, EngineStopped):
            pass  # the last known ones, then; radixchat_engine_up tells a dead engine
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """No names in advance: nothing else is in the registry that they could clash with."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        yield from self._of_process()
        yield from self._of_engine()
        yield from self._of_cache()
        if self._tiers is not None:
            yield from tier_metrics(self._tiers)
        yield from self._of_responses()
        yield from self._of_sockets()
        yield from self._of_requests()

    def _of_process(self) -> Iterator[Metric]:
        what = (self._version, self._host.model_name)
        yield gauges("build_info", "What runs here; always 1.", ("version", "model"), [(what, 1)])
        alive = self._host.failure is None
        yield gauge("engine_up", "1 while the engine's thread lives.", alive)
        yield gauge("draining", "1 while no new work is accepted.", self._host.is_draining)

    def _of_engine(self) -> Iterator[Metric]:
        now, counts = self._figures.snapshot, self._figures.snapshot.counters
        yield gauge("requests_running", "Requests in the current step.", now.running)
        yield gauge("requests_waiting", "Requests that wait to be admitted.", now.waiting)
        for name, text, value in (
            ("requests", "Requests that the engine ended.", counts.requests),
            ("requests_cancelled", "Of these, cancelled.", counts.cancelled),
            ("prompt_tokens", "Tokens of the prompts of ended requests.", counts.prompt_tokens),
            ("generation_tokens", "Tokens sampled, of ended requests.", counts.output_tokens),
            ("computed_tokens", "Tokens that went through the model.", counts.computed_tokens),
            ("draft_tokens", "Tokens guessed and computed ahead.", counts.draft_tokens),
            ("accepted_draft_tokens", "Of these, right.", counts.accepted_tokens),
            ("preemptions", "Requests that had to make room.", counts.preemptions),
            ("engine_steps", "Forward passes.", counts.steps),
            ("engine_step_seconds", "Seconds in steps.", counts.step_seconds),
            ("engine_schedule_seconds", "Of these, deciding.", counts.schedule_seconds),
            ("engine_stalls", "Times that nothing moved for long.", counts.stalls),
        ):
            yield counter(name, text, value)

    def _of_cache(self) -> Iterator[Metric]:
        figures, counts = self._figures, self._figures.snapshot.counters
        queries, hits = counts.prompt_tokens, counts.cached_tokens
        yield counter("prefix_cache_queries", "Prompt tokens looked up.", queries)
        yield counter("prefix_cache_hits", "Of these, found: the hit rate in tokens.", hits)
        text = "Cached prompt tokens of ended requests, by where they were."
        by_tier = labelled(self._metrics.cached_tokens)
        yield counters("cached_tokens", text, ("tier",), by_tier)
        yield counter("kv_evicted_tokens", "Tokens dropped to make room.", figures.evicted)
        total = figures.snapshot.pages * figures.page_size
        free = figures.snapshot.pages_free * figures.page_size
        pinned = total - free - figures.evictable
        states = labelled({"free": free, "evictable": figures.evictable, "pinned": pinned})
        yield gauges("kv_tokens", "Room in the KV pool, in tokens.", ("state",), states)
        used = pinned / total if total else 0.0
        yield gauge("kv_cache_usage_ratio", "Share of the pool that requests hold.", used)
        yield gauge("kv_cached_tokens", "Tokens in the radix tree.", figures.cached)
        yield gauge("radix_nodes", "Nodes of the radix tree.", figures.nodes)

    def _of_responses(self) -> Iterator[Metric]:
        metrics = self._metrics
        active = self._host.num_running
        yield gauge("sessions_active", "Conversations with a running response.", active)
        ended = metrics.responses.items()
        yield counters("responses", "Responses that ended.", ("status", "reason"), ended)
        by_cache = [((label,), metrics.first_token[label]) for label in CACHE_LABELS]
        text = "From a turn's acceptance to its first token."
        yield histogram("time_to_first_token_seconds", text, by_cache, ("cache",))
        text = "From token to token of one request; those of one step share the gap."
        yield histogram("inter_token_latency_seconds", text, [((), metrics.token_gaps)])
        text = "From the hand-over to the engine to the first admission."
        yield histogram("request_queue_time_seconds", text, [((), metrics.queue_time)])
        text = "Prompt tokens of a request that were not cached."
        yield histogram("prefill_computed_tokens", text, [((), metrics.computed_tokens)])
        text = "Calls of the store, reads and writes; waiting for its thread included."
        yield histogram("db_call_seconds", text, [((), metrics.database_time)])

    def _of_sockets(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield gauge("websocket_connections", "WebSockets that are open.", metrics.sockets_open)
        yield counter("websocket_connections", "WebSockets accepted.", metrics.sockets_opened)
        closed = labelled(metrics.sockets_closed)
        yield counters("websocket_closed", "WebSockets closed.", ("code",), closed)
        queued = metrics.socket_queue_bytes
        yield gauge("ws_send_queue_bytes", "Bytes that wait for readers.", queued)
        slow = metrics.slow_consumers
        yield counter("slow_consumer_closed", "Closed because the reader stalled.", slow)
        resumes = labelled(metrics.resumes)
        yield counters("resume", "Responses taken up again.", ("result",), resumes)

    def _of_requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        labels = ("method", "route", "status")
        yield counters("http_requests", "HTTP requests answered.", labels, metrics.requests.items())
        by_route = [((route,), seen) for route, seen in sorted(metrics.request_time.items())]
        text = "From a request's head to the end of its answer."
        yield histogram("http_request_seconds", text, by_route, ("route",))
        refusals = labelled(metrics.refusals)
        yield counters("errors", "Errors sent to clients.", ("code",), refusals)
