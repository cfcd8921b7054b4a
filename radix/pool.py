"""`PagePool`: which pages are free, and how many hold on to each of the others.

A page is an int, 0 to num_pages - 1; none is reserved and any free page serves any need, so
there is no external fragmentation. The pool does not know what is in a page or who holds it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable


class PagePool:
    """A stack of free pages and a reference count for every page; O(1) per page."""

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"num_pages is {num_pages}; it must be at least 1")
        self.num_pages = num_pages
        self._free = array("i", range(num_pages - 1, -1, -1))
        self._references = array("i", bytes(4 * num_pages))

    @property
    def num_free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Take `count` free pages, each with one reference."""
        assert 0 <= count <= len(self._free), f"{count} pages asked, {len(self._free)} are free"
        kept = len(self._free) - count
        pages = self._free[kept:].tolist()[::-1]
        del self._free[kept:]
        for page in pages:
            self._references[page] = 1
        return pages

    def hold(self, pages: Iterable[int]) -> None:
        """Add one reference to each page."""
        for page in pages:
            assert self._references[page] > 0, f"page {page} is free and cannot be shared"
            self._references[page] += 1

    def drop(self, pages: Iterable[int]) -> int:
        """Take one reference from each page; returns how many became free."""
        before = len(self._free)
        for page in pages:
            assert self._references[page] > 0, f"page {page} is freed twice"
            self._references[page] -= 1
            if self._references[page] == 0:
                self._free.append(page)
        return len(self._free) - before

    def check(self, references: Counter[int]) -> None:
        """Raise AssertionError unless exactly these pages are held, exactly this often."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        for page, counted in enumerate(self._references):
            assert counted == references[page], (
                f"page {page} has {counted} references, the walk finds {references[page]}"
            )
            assert (page in free) == (counted == 0), f"page {page} is free and held, or lost"
        assert len(free) + len(+references) == self.num_pages, "a page id is out of range"
