"""`TiersBelow`: what a schedule has below the pool, made for one engine. Knows no promise."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from radixchat.engine.config import EngineConfig, EnginePlan
from radixchat.engine.tiers.page_store import PageStore
from radixchat.radix.tiers import Tier
from radixchat.tests.engine.tiers.unsteady_store import UnsteadyStore

if TYPE_CHECKING:
    from radixchat.engine.engine import Engine
    from radixchat.tests.engine.schedule import Schedule
    from radixchat.tests.engine.solo_answers import SoloAnswers

# Nothing that is read from memory, or written there, takes as long.
PATIENCE_S = 30.0


class TiersBelow:
    """Nothing, for a schedule without. config: of its engine."""

    def __init__(self, solos: SoloAnswers, schedule: Schedule) -> None:
        settings = asdict(schedule.settings)
        below = schedule.below
        if below is not None:
            checkpoint = solos.checkpoint
            plan = EngineConfig(threads=1, **settings).resolve(
                checkpoint.config, checkpoint.weights
            )
            page_bytes = plan.page_size * plan.kv_bytes_per_token
            settings |= {
                "host_cache_bytes": below.host_pages * page_bytes,
                "tier_gate": below.gate,
                "write_policy": below.write_policy,
            }
        self.config = EngineConfig(threads=1, **settings)
        self._solos = solos
        self._schedule = schedule
        self.make_store = None if below is None or below.store is None else self._make_store

    def wait(self, engine: Engine) -> None:
        """Until nothing is being read or written any more."""
        until = time.monotonic() + PATIENCE_S
        while engine.tiers is not None and not engine.tiers.is_idle:
            assert time.monotonic() < until, "a read or a write does not end"
            engine.do_chores()
            time.sleep(0.0001)

    def end(self, engine: Engine) -> Counter[str]:
        """Close the engine; what it had from where."""
        if engine.tiers is None:
            return Counter()
        engine.close(PATIENCE_S)
        engine.tiers.host.check()
        restored = engine.tiers.stats.restored
        return Counter(host=restored[Tier.HOST], disk=restored[Tier.DISK])

    def _make_store(self, plan: EnginePlan, page_bytes: int) -> PageStore:
        below = self._schedule.below
        assert below is not None
        assert below.store is not None
        store = UnsteadyStore(page_bytes, len(self._schedule.asks), below.store)
        if below.kept:
            store.pages |= self._solos.kept_pages(plan.page_size)
        return store
