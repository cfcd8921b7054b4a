"""`MemoryStore`: a store that keeps its pages in memory, and may be slow, as far ones are.

What a remote store has to be like; the tests' and benches' model of one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from radixchat.engine.tiers.page_store import StoredPage


class MemoryStore:
    """Each page takes `delay_s` to read. `pages`: name → namespace and bytes."""

    def __init__(self, page_bytes: int, delay_s: float = 0.0) -> None:
        self.page_bytes = page_bytes
        self.problem: str | None = None
        self.delay_s = delay_s
        self.pages: dict[bytes, tuple[bytes, bytes]] = {}

    def get(
        self,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None = None,
    ) -> int:
        """PageStore.get."""
        for index, (digest, row) in enumerate(zip(digests, into, strict=True)):
            if deadline is not None and time.monotonic() + self.delay_s > deadline:
                return index
            if self.delay_s:
                time.sleep(self.delay_s)
            page = self.pages.get(digest)
            if page is None:
                return index
            row[:] = page[1]
        return len(digests)

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """PageStore.put."""
        for index, page in enumerate(pages):
            if deadline is not None and time.monotonic() > deadline:
                return index
            self.pages[page.digest] = (page.namespace, bytes(page.data))
        return len(pages)

    def exists(self, digests: Sequence[bytes]) -> list[bool]:
        """PageStore.exists."""
        return [digest in self.pages for digest in digests]

    def delete(self, digests: Sequence[bytes]) -> int:
        """PageStore.delete."""
        return sum(self.pages.pop(digest, None) is not None for digest in digests)

    def forget(self, namespace: bytes | None) -> int:
        """PageStore.forget."""
        gone = [d for d, (owner, _) in list(self.pages.items()) if namespace in (None, owner)]
        return self.delete(gone)

    def known(self) -> Iterator[bytes]:
        """PageStore.known."""
        return iter(list(self.pages))

    def news(self) -> tuple[list[bytes], list[bytes]]:
        """Nobody else writes here."""
        return [], []

    def close(self) -> None:
        """The pages stay, for whoever opens an engine over it again."""
