"""What the tiers below the pool have, and what they did: `TierFigures`, and its metrics.

Owns the names of these. Knows no page: what the engine's thread counts it is told there, what is
on the disk the store tells on any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from radixchat.engine.tiers.disk_store import DiskStats, DiskStore
from radixchat.server.metric_family import counter, counters, gauge, gauges, labelled
from radixchat.server.response_usage import SOURCES

if TYPE_CHECKING:
    from radixchat.engine.engine import Engine
    from radixchat.server.host import ChatHost


@dataclass(frozen=True, slots=True)
class TierFigures:
    """Since the start; tiers by their names in SOURCES.

    restored: tokens that came back into the pool. read_pages: pages that were read from the store
    because somebody waited for them, or was about to; used_pages: of these, those that came back.
    refused_tokens: those that the gate had computed again. load_us, prefill_us: a token's
    microseconds, by which it decides. disk: what is on the disk, if there is such a tier.
    """

    restored: Mapping[str, int]
    read_pages: int
    used_pages: int
    refused_tokens: int
    host_pages: int
    host_bytes: int
    host_capacity: int
    prefill_us: float
    load_us: Mapping[str, float]
    disk: DiskStats | None = None

    @property
    def useful_share(self) -> float | None:
        """Of the pages that were read, those that were of use; None: none was read."""
        return self.used_pages / self.read_pages if self.read_pages else None

    def stats(self) -> dict[str, int | float | str]:
        """The figures by name, for whoever shows them."""
        found: dict[str, int | float | str] = {
            f"{place}_restored_tokens": tokens for place, tokens in self.restored.items() if tokens
        }
        found |= {"host_pages": self.host_pages, "host_bytes": self.host_bytes}
        if self.disk is not None:
            found |= {"disk_pages": self.disk.pages, "disk_bytes": self.disk.bytes}
            if self.disk.problem is not None:
                found["disk_problem"] = self.disk.problem
        found |= {f"{place}_us_per_token": round(us, 1) for place, us in self.load_us.items()}
        found["prefill_us_per_token"] = round(self.prefill_us, 1)
        if self.useful_share is not None:
            found["read_pages"], found["used_pages"] = self.read_pages, self.used_pages
        return found | {"refused_tokens": self.refused_tokens}


async def read_tiers(host: ChatHost) -> TierFigures | None:
    """None where there are none. Raises EngineStopped."""
    if not host.has_tiers:
        return None
    store = await host.engine.ask(lambda engine: engine.tiers and engine.tiers.store)
    disk = await asyncio.to_thread(store.stats) if isinstance(store, DiskStore) else None
    return await host.engine.ask(lambda engine: _counted(engine, disk))


def _counted(engine: Engine, disk: DiskStats | None) -> TierFigures | None:
    tiers = engine.tiers
    if tiers is None:
        return None
    stats, gate, host = tiers.stats, tiers.gate, tiers.host
    loads = {SOURCES[tier]: gate.load_us(tier) for tier in stats.restored}
    return TierFigures(
        restored={SOURCES[tier]: tokens for tier, tokens in stats.restored.items() if tier},
        read_pages=stats.read_pages,
        used_pages=stats.used_pages,
        refused_tokens=stats.refused_tokens,
        host_pages=len(host),
        host_bytes=host.num_bytes,
        host_capacity=host.num_slots * host.page_bytes,
        prefill_us=gate.prefill_us,
        load_us={place: us for place, us in loads.items() if us is not None},
        disk=disk,
    )


def tier_metrics(figures: TierFigures) -> Iterator[Metric]:
    """In Prometheus' form."""
    disk = figures.disk
    held = {"host": (figures.host_pages, figures.host_bytes, figures.host_capacity)}
    if disk is not None:
        held["disk"] = (disk.pages, disk.bytes, disk.quota_bytes)
    texts = (
        ("pages", "Pages that are kept; on disk those of this model."),
        ("bytes", "Bytes that they take; on disk those of all models."),
        ("capacity_bytes", "Bytes that they may take."),
    )
    for index, (name, text) in enumerate(texts):
        series = labelled({tier: held[tier][index] for tier in held})
        yield gauges(f"tier_{name}", text, ("tier",), series)
    text = "Tokens that came back into the pool."
    yield counters("tier_restored_tokens", text, ("tier",), labelled(figures.restored))
    seconds = labelled({place: us * 1e-6 for place, us in figures.load_us.items()})
    text = "What a token takes to come back, by which the gate decides."
    yield gauges("tier_load_seconds_per_token", text, ("tier",), seconds)
    text = "What a token takes to be computed, by which the gate decides."
    yield gauge("tier_prefill_seconds_per_token", text, figures.prefill_us * 1e-6)
    text = "Tokens that the gate had computed again."
    yield counter("tier_refused_tokens", text, figures.refused_tokens)
    yield counter("tier_read_pages", "Pages read ahead of a prompt.", figures.read_pages)
    yield counter("tier_used_pages", "Of these, brought back.", figures.used_pages)
    if figures.useful_share is not None:
        text = "Share of the pages read ahead that were brought back."
        yield gauge("tier_prefetch_useful_ratio", text, figures.useful_share)
    if disk is not None:
        text = "Pages read from the disk, whole and valid."
        yield counter("tier_disk_reads", text, disk.hits)
        yield counter("tier_disk_writes", "Pages written to the disk.", disk.written)
        text = "Pages that were not read from the disk, or not served."
        yield counters("tier_disk_misses", text, ("reason",), labelled(disk.misses))
        text = "1 once the disk tier has turned itself off."
        yield gauge("tier_disk_off", text, disk.problem is not None)
