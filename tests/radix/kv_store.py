"""`KvStore`: the K/V of a `Simulation`: in each slot the number of the prefix that was computed.

A slot that holds the wrong number is K/V of another prefix. Free pages are blank, so that what
was freed too early shows. Knows neither cache nor tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from radixchat.radix.allocation import PageCopy

_FREE = -1


class KvStore:
    """Pages of `page_size` slots."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self._page_size = page_size
        self._blank = [_FREE] * page_size
        self._pages = [list(self._blank) for _ in range(num_pages)]

    def write(self, pages: list[int], begin: int, prefixes: list[int]) -> None:
        """Compute the tokens of a page table from position `begin` on."""
        for position, prefix in enumerate(prefixes, begin):
            page, slot = divmod(position, self._page_size)
            self._pages[pages[page]][slot] = prefix

    def copy(self, copy: PageCopy) -> None:
        """Do as an allocation asks."""
        slots = self._pages[copy.source][: copy.num_slots]
        self._pages[copy.destination][: copy.num_slots] = slots

    def holds(self, page: int, prefixes: list[int]) -> bool:
        """Whether the first slots of a page are these."""
        return self._pages[page][: len(prefixes)] == prefixes

    def erase(self, pages: Iterable[int]) -> None:
        """These are free: nobody may read them."""
        for page in pages:
            if self._pages[page] != self._blank:
                self._pages[page] = list(self._blank)
