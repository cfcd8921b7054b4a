"""`HostTier`: pages in the machine's memory, by name; the least recently used make room.

    slot    0        1        2        3
    page    a3…      7f…      (free)   c0… being read into: nobody finds it, nobody takes its slot

Owns the memory and who is in it. What leaves is offered to whoever has the next tier. Moves
nothing between tiers and knows no tensor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from radixchat.engine.tiers.page_bytes import Row

# Who waits for a page has it by then, or does not count any more.
EXPECTED_S = 30.0


@dataclass(frozen=True, slots=True)
class HostPage:
    """A page that is here."""

    slot: int
    namespace: bytes


class HostTier:
    """At most `num_slots` pages of `page_bytes` each; the memory is used as it is first written."""

    def __init__(
        self,
        num_slots: int,
        page_bytes: int,
        *,
        pinned: bool = False,
    ) -> None:
        """pinned: for copies to and from a GPU."""
        if num_slots < 1:
            raise ValueError(f"num_slots is {num_slots}; it must be at least 1")
        self.num_slots = num_slots
        self.page_bytes = page_bytes
        self._rows = _memory(num_slots, page_bytes, pinned=pinned)
        # Told of digest, namespace and bytes of what makes room, while they are there.
        self.on_leave: Callable[[bytes, bytes, Row], None] = lambda digest, namespace, row: None
        self._free = list(range(num_slots - 1, -1, -1))
        self._pages: dict[bytes, HostPage] = {}  # the least recently used first
        self._filling: dict[bytes, HostPage] = {}
        self._unwanted: set[bytes] = set()  # of those that are being filled
        self._expected: dict[bytes, float] = {}  # until when they are

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._pages

    def is_filling(self, digest: bytes) -> bool:
        """Whether it is being read."""
        return digest in self._filling

    @property
    def num_bytes(self) -> int:
        """Bytes of the pages that are here."""
        return len(self._pages) * self.page_bytes

    @property
    def num_available(self) -> int:
        """Slots that `begin` could give, one after the other."""
        return self.num_slots - len(self._filling)

    def get(self, digest: bytes) -> Row | None:
        """The bytes of a page, which is used by that; None: it is not here."""
        page = self._pages.pop(digest, None)
        if page is None:
            return None
        self._pages[digest] = page
        return self._row(page.slot)

    def expect(self, digest: bytes) -> None:
        """Somebody waits for a page that is here or being filled."""
        self._expected[digest] = time.monotonic() + EXPECTED_S

    def is_had(self, digest: bytes) -> None:
        """Who waited for it has it."""
        self._expected.pop(digest, None)

    def begin(self, digest: bytes, namespace: bytes, *, yields: bool = False) -> Row | None:
        """A row for a page that is not here, to be filled; `end` it. None: all are being filled.

        yields: or are expected; it takes nobody's place who is.
        """
        assert digest not in self._pages
        assert digest not in self._filling
        if not self._free and not self._make_room(yields=yields):
            return None
        page = HostPage(self._free.pop(), namespace)
        self._filling[digest] = page
        return self._row(page.slot)

    def end(self, digest: bytes, *, filled: bool) -> bool:
        """The row is filled, and the page can be found; or it is not, and the row is free.

        So it is where the page was discarded meanwhile. Returns whether the page is here.
        """
        page = self._filling.pop(digest)
        is_here = filled and digest not in self._unwanted
        self._unwanted.discard(digest)
        if is_here:
            self._pages[digest] = page
        else:
            self._free.append(page.slot)
            self._expected.pop(digest, None)
        return is_here

    def discard(self, digest: bytes) -> bool:
        """Forget a page that is here, and offer it to nobody; whether it was.

        One that is being filled keeps its slot until its end, and is not here then.
        """
        if digest in self._filling:
            self._unwanted.add(digest)
        page = self._pages.pop(digest, None)
        self._expected.pop(digest, None)
        if page is not None:
            self._free.append(page.slot)
        return page is not None

    def discard_all(self, namespace: bytes | None) -> list[bytes]:
        """The same for all pages of a namespace, or of all; those that were here."""
        for digest, page in self._filling.items():
            if namespace in (None, page.namespace):
                self._unwanted.add(digest)
        return [digest for digest in self.digests(namespace) if self.discard(digest)]

    def digests(self, namespace: bytes | None = None) -> list[bytes]:
        """The pages that are here, the least recently used first; those of a namespace."""
        if namespace is None:
            return list(self._pages)
        return [digest for digest, page in self._pages.items() if page.namespace == namespace]

    def namespace(self, digest: bytes) -> bytes:
        """Whose a page is that is here."""
        return self._pages[digest].namespace

    def check(self) -> None:
        """Raise AssertionError unless each slot has one owner."""
        slots = [page.slot for page in (*self._pages.values(), *self._filling.values())]
        assert sorted([*slots, *self._free]) == list(range(self.num_slots)), "a slot is lost"
        assert not self._pages.keys() & self._filling.keys(), "a page is here and being read"
        assert self._expected.keys() <= self._pages.keys() | self._filling.keys(), "nobody comes"
        assert self._unwanted <= self._filling.keys(), "what is unwanted is being read"

    def _make_room(self, *, yields: bool) -> bool:
        if yields and self._expected and self._pages:
            self._spare_expected()
        digest = next(iter(self._pages), None)
        if digest is None or (yields and digest in self._expected):
            return False
        page = self._pages.pop(digest)
        self._expected.pop(digest, None)
        self.on_leave(digest, page.namespace, self._row(page.slot))
        self._free.append(page.slot)
        return True

    def _spare_expected(self) -> None:
        """Those at the front that are expected count as used: they are, in a moment."""
        now = time.monotonic()
        # Where there are hardly any others, they are not looked for, page by page that leaves.
        for _ in range(1 if len(self._expected) >= len(self._pages) else len(self._pages)):
            digest = next(iter(self._pages))
            if self._expected.get(digest, 0.0) < now:
                self._expected.pop(digest, None)
                return
            self._pages[digest] = self._pages.pop(digest)

    def _row(self, slot: int) -> Row:
        row: Row = self._rows[slot]
        return row


def _memory(num_slots: int, page_bytes: int, *, pinned: bool) -> NDArray[np.uint8]:
    if pinned:
        memory = torch.empty((num_slots, page_bytes), dtype=torch.uint8, pin_memory=True)
        return memory.numpy()
    return np.zeros((num_slots, page_bytes), np.uint8)  # calloc: touched when first written
