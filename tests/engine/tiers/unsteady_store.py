"""`UnsteadyStore`: a store on which nobody can rely, in the same way for the same seed.

Reads take a while, find nothing, or end early; writes are refused in part; pages get lost. What it
does give back is what was put.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tiers.page_store import StoredPage


class UnsteadyStore(MemoryStore):
    """trouble: how likely each of these is, for every call."""

    def __init__(self, page_bytes: int, seed: int, trouble: float) -> None:
        super().__init__(page_bytes)
        self._rng = random.Random(seed)
        self._trouble = trouble

    def get(
        self,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None = None,
    ) -> int:
        """PageStore.get; what of `into` was not read may have any bytes."""
        if self._happens():
            time.sleep(self._rng.choice((0.0002, 0.002)))
        count = len(digests)
        if self._happens():
            count = self._rng.randrange(count + 1)
        if self._happens() and self.pages:
            self.pages.pop(self._rng.choice(list(self.pages)), None)
        read = super().get(digests[:count], into[:count], deadline)
        for row in into[read:]:
            row[:] = bytes([0xAA]) * len(row)
        return read

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """PageStore.put; not of all."""
        if self._happens():
            time.sleep(0.0005)
        if self._happens():
            pages = pages[: self._rng.randrange(len(pages) + 1)]
        return super().put(pages, deadline)

    def _happens(self) -> bool:
        return self._rng.random() < self._trouble
