"""Makes the tiers that a plan asks for, or none.

Owns how much memory a store needs in front of it. Knows no scheduler and no format of a file: a
store is made by whoever knows where.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

import numpy as np

from radixchat.engine.config import EnginePlan
from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.cost_gate import PEAK, CostGate
from radixchat.engine.tiers.host_tier import HostTier
from radixchat.engine.tiers.page_bytes import PageBytes
from radixchat.engine.tiers.page_store import PageStore
from radixchat.engine.tiers.tiers import Tiers
from radixchat.kernels import ops
from radixchat.radix.tiers import Tier

MakeStore = Callable[[EnginePlan, int], PageStore]
"""Of a plan and the bytes of a page."""

# What is read for a request waits in memory until it is admitted: a whole context, and not less.
MIN_STAGING_BYTES, MAX_STAGING_BYTES = 64 << 20, 512 << 20

CALIBRATING_PAGES = 3


def open_tiers(
    plan: EnginePlan, pages: ops.KVPages, make_store: MakeStore | None, store_tier: Tier = Tier.DISK
) -> Tiers | None:
    """None where nothing is asked for, or nothing is cached. Raises ConfigError."""
    if not plan.prefix_cache or (plan.host_cache_bytes == 0 and make_store is None):
        return None
    if plan.public_prefixes:
        raise ConfigError("public prefixes and tiers below the pool exclude each other so far")
    page = PageBytes(pages)
    host_bytes = plan.host_cache_bytes
    if make_store is not None:
        context = -(-plan.max_tokens // plan.page_size) * page.num_bytes
        host_bytes = max(host_bytes, min(max(context, MIN_STAGING_BYTES), MAX_STAGING_BYTES))
    if host_bytes < page.num_bytes:
        raise ConfigError(
            f"host_cache_bytes is {host_bytes}, less than one page of {page.num_bytes} bytes"
        )
    gate = CostGate(plan.tier_gate, plan.operations_per_token / PEAK[plan.device] * 1e6)
    host = HostTier(host_bytes // page.num_bytes, page.num_bytes, pinned=plan.device == "cuda")
    store = None if make_store is None else make_store(plan, page.num_bytes)
    if store is not None:
        calibrate(gate, store, store_tier, plan.page_size)
    return Tiers(
        page,
        plan.page_size,
        host,
        gate,
        store,
        store_tier=store_tier,
        write_policy=plan.write_policy,
    )


def calibrate(gate: CostGate, store: PageStore, tier: Tier, page_size: int) -> None:
    """Read a few pages of a store, if it has any, to know what one takes.

    The quickest counts: the first has to open what the others find open.
    """
    row = np.empty(store.page_bytes, np.uint8)
    seconds = list[float]()
    for digest in islice(store.known(), CALIBRATING_PAGES):
        began = time.perf_counter()
        if store.get([digest], [row.data]):
            seconds.append(time.perf_counter() - began)
    if seconds:
        gate.loaded(tier, page_size, min(seconds))
