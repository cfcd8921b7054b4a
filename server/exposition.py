"""`GET /metrics`: the counts of `Metrics` and of the engine, in Prometheus' text format.

Owns the names (protocol §3.8) and what of the engine's state they show. The engine is asked on
its own thread; while a long step keeps it from answering, or when it has died, the last known
figures are shown. Knows no sessions: there is nothing here that names one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from radixchat.engine.errors import EngineStopped
from radixchat.engine.stats import EngineSnapshot
from radixchat.server.distribution import Distribution
from radixchat.server.metrics import CACHE_LABELS, Metrics
from radixchat.server.tier_figures import TierFigures, read_tiers, tier_metrics

if TYPE_CHECKING:
    from radixchat.engine.engine import Engine
    from radixchat.server.host import ChatHost

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# A step of a long prompt on a slow machine; a scraper gives up after ten seconds.
PATIENCE_S = 2.0
PREFIX = "radixchat_"


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
        info = GaugeMetricFamily(
            PREFIX + "build_info", "What runs here; always 1.", labels=("version", "model")
        )
        info.add_metric((self._version, self._host.model_name), 1)
        yield info
        alive = self._host.failure is None
        yield _gauge("engine_up", "1 while the engine's thread lives.", alive)
        yield _gauge("draining", "1 while no new work is accepted.", self._host.is_draining)

    def _of_engine(self) -> Iterator[Metric]:
        now, counters = self._figures.snapshot, self._figures.snapshot.counters
        yield _gauge("requests_running", "Requests in the current step.", now.running)
        yield _gauge("requests_waiting", "Requests that wait to be admitted.", now.waiting)
        for name, text, value in (
            ("requests", "Requests that the engine ended.", counters.requests),
            ("requests_cancelled", "Of these, cancelled.", counters.cancelled),
            ("prompt_tokens", "Tokens of the prompts of ended requests.", counters.prompt_tokens),
            ("generation_tokens", "Tokens sampled, of ended requests.", counters.output_tokens),
            ("computed_tokens", "Tokens that went through the model.", counters.computed_tokens),
            ("draft_tokens", "Tokens guessed and computed ahead.", counters.draft_tokens),
            ("accepted_draft_tokens", "Of these, right.", counters.accepted_tokens),
            ("preemptions", "Requests that had to make room.", counters.preemptions),
            ("engine_steps", "Forward passes.", counters.steps),
            ("engine_step_seconds", "Seconds in steps.", counters.step_seconds),
            ("engine_schedule_seconds", "Of these, deciding.", counters.schedule_seconds),
            ("engine_stalls", "Times that nothing moved for long.", counters.stalls),
        ):
            yield _counter(name, text, value)

    def _of_cache(self) -> Iterator[Metric]:
        figures, counters = self._figures, self._figures.snapshot.counters
        queries, hits = counters.prompt_tokens, counters.cached_tokens
        yield _counter("prefix_cache_queries", "Prompt tokens looked up.", queries)
        yield _counter("prefix_cache_hits", "Of these, found: the hit rate in tokens.", hits)
        text = "Cached prompt tokens of ended requests, by where they were."
        by_tier = _labelled(self._metrics.cached_tokens)
        yield _counters("cached_tokens", text, ("tier",), by_tier)
        yield _counter("kv_evicted_tokens", "Tokens dropped to make room.", figures.evicted)
        total = figures.snapshot.pages * figures.page_size
        free = figures.snapshot.pages_free * figures.page_size
        tokens = GaugeMetricFamily(
            PREFIX + "kv_tokens", "Room in the KV pool, in tokens.", labels=("state",)
        )
        tokens.add_metric(("free",), free)
        tokens.add_metric(("evictable",), figures.evictable)
        tokens.add_metric(("pinned",), total - free - figures.evictable)
        yield tokens
        used = (total - free - figures.evictable) / total if total else 0.0
        yield _gauge("kv_cache_usage_ratio", "Share of the pool that requests hold.", used)
        yield _gauge("kv_cached_tokens", "Tokens in the radix tree.", figures.cached)
        yield _gauge("radix_nodes", "Nodes of the radix tree.", figures.nodes)

    def _of_responses(self) -> Iterator[Metric]:
        metrics = self._metrics
        active = self._host.num_running
        yield _gauge("sessions_active", "Conversations with a running response.", active)
        ended = metrics.responses.items()
        yield _counters("responses", "Responses that ended.", ("status", "reason"), ended)
        by_cache = [((label,), metrics.first_token[label]) for label in CACHE_LABELS]
        text = "From a turn's acceptance to its first token."
        yield _histogram("time_to_first_token_seconds", text, by_cache, ("cache",))
        text = "From token to token of one request; those of one step share the gap."
        yield _histogram("inter_token_latency_seconds", text, [((), metrics.token_gaps)])
        text = "From the hand-over to the engine to the first admission."
        yield _histogram("request_queue_time_seconds", text, [((), metrics.queue_time)])
        text = "Prompt tokens of a request that were not cached."
        yield _histogram("prefill_computed_tokens", text, [((), metrics.computed_tokens)])
        text = "Calls of the store, reads and writes; waiting for its thread included."
        yield _histogram("db_call_seconds", text, [((), metrics.database_time)])

    def _of_sockets(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield _gauge("websocket_connections", "WebSockets that are open.", metrics.sockets_open)
        yield _counter("websocket_connections", "WebSockets accepted.", metrics.sockets_opened)
        closed = _labelled(metrics.sockets_closed)
        yield _counters("websocket_closed", "WebSockets closed.", ("code",), closed)
        queued = metrics.socket_queue_bytes
        yield _gauge("ws_send_queue_bytes", "Bytes that wait for readers.", queued)
        slow = metrics.slow_consumers
        yield _counter("slow_consumer_closed", "Closed because the reader stalled.", slow)
        resumes = _labelled(metrics.resumes)
        yield _counters("resume", "Responses taken up again.", ("result",), resumes)

    def _of_requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        labels = ("method", "route", "status")
        yield _counters(
            "http_requests", "HTTP requests answered.", labels, metrics.requests.items()
        )
        by_route = [((route,), seen) for route, seen in sorted(metrics.request_time.items())]
        text = "From a request's head to the end of its answer."
        yield _histogram("http_request_seconds", text, by_route, ("route",))
        refusals = _labelled(metrics.refusals)
        yield _counters("errors", "Errors sent to clients.", ("code",), refusals)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=float(value))


def _labelled(counts: Mapping[str, int]) -> list[tuple[tuple[str, ...], int]]:
    return [((label,), count) for label, count in counts.items()]


def _counters(
    name: str, text: str, labels: tuple[str, ...], counts: Iterable[tuple[tuple[str, ...], int]]
) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, count in sorted(counts):
        family.add_metric(values, count)
    return family


def _histogram(
    name: str,
    text: str,
    series: Iterable[tuple[tuple[str, ...], Distribution]],
    labels: tuple[str, ...] = (),
) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for values, seen in series:
        family.add_metric(values, seen.buckets(), seen.sum)
    return family
