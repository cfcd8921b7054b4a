"""`SlruPolicy`: segmented LRU, for comparison: what was reused is protected, up to half the pool.

Owns its two orders. Leaves are all it counts: an inner node is never evicted before what hangs
below it, so it neither needs protection nor takes room from those that do. On chat this loses
to LRU: every turn but the first is a reuse, so being protected says little.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixchat.radix.eviction import LeafHeap
from radixchat.radix.node import Node
from radixchat.radix.use import Signal


class SlruPolicy:
    """Least recently used first, of the leaves on probation while there are any.

    A leaf whose tip was reused is protected when it joins the order. When the protected leaves
    hold more than half of the pool's `num_pages`, the least recent of them go on probation,
    each at the place of its last use, and stay there until they join the order again.
    """

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"num_pages is {num_pages}; it must be at least 1")
        self._probation = LeafHeap()
        self._protected = LeafHeap()
        self._room = num_pages // 2
        self._pages: dict[Node, int] = {}  # of the protected leaves

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""
        if not leaf.use.reused:
            self._probation.add(leaf, leaf.use.stamp)
            return
        self._protected.add(leaf, leaf.use.stamp)
        self._pages[leaf] = len(leaf.pages)
        self._room -= len(leaf.pages)
        while self._room < 0:
            demoted = self._protected.first()
            assert demoted is not None, "no protected leaf, yet they hold pages"
            self.discard(demoted)
            self._probation.add(demoted, demoted.use.stamp)

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable."""
        pages = self._pages.pop(leaf, None)
        if pages is None:
            self._probation.discard(leaf)
        else:
            self._protected.discard(leaf)
            self._room += pages

    def victim(self) -> Node | None:
        """The least recent leaf on probation, else the least recent protected one."""
        return self._probation.first() or self._protected.first()

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the order, in any sequence."""
        yield from self._probation.leaves()
        yield from self._protected.leaves()

    def observe(self, conversation: str, signal: Signal) -> None:
        """Nothing that is heard of a conversation matters."""
