"""`LeafTree`: a radix tree with page size 1 and one LRU order of its leaves.

What SGLang's and TGI's caches have in common, for `sglang_leaves.py` and `tgi_prompts.py`. It owns
the nodes, their locks and the order; who is evicted, whole or in part, its users decide. It
holds no pages, knows no capacity, and shares nothing with `radixchat.radix`, which it is measured
against.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from radixchat.bench.arm import UNIT_BYTES, common_units


class Span:
    """A run of units below its parent.

    key: int32 as bytes. locks: live requests that hold it or something below. used: when it was
    last walked over. ticket: its one valid entry in the order, 0 when it has none.
    """

    __slots__ = ("children", "key", "locks", "parent", "ticket", "used")

    def __init__(self, key: bytes, parent: Span | None, used: int) -> None:
        self.key = key
        self.parent = parent
        self.children: dict[bytes, Span] = {}
        self.locks = 0
        self.used = used
        self.ticket = 0

    @property
    def num_units(self) -> int:
        """Its length."""
        return len(self.key) // UNIT_BYTES


class LeafTree:
    """Prefixes by namespace, and the unlocked leaves, least recently used first."""

    _SLACK = 64  # stale entries of the order that are never worth sweeping

    def __init__(self) -> None:
        self.num_units = 0
        self._roots: dict[bytes, Span] = {}
        self._order: list[tuple[int, int, Span]] = []
        self._num_leaves = 0
        self._now = 0
        self._last_ticket = 0

    def walk(self, namespace: bytes, units: bytes) -> tuple[Span, int]:
        """Follow `units` as far as they are cached; returns where they end, and how many.

        Every node on the way counts as used now, the last one as a whole even where only its
        head matches; there it is split.
        """
        self._now += 1
        node = self._roots.get(namespace)
        if node is None:
            node = self._roots[namespace] = Span(b"", None, self._now)
        offset = 0
        while (child := node.children.get(units[offset : offset + UNIT_BYTES])) is not None:
            self._touch(child)
            if not units.startswith(child.key, offset):
                length = common_units(child.key, units[offset : offset + len(child.key)])
                return self._split(child, length * UNIT_BYTES), offset // UNIT_BYTES + length
            offset += len(child.key)
            node = child
        return node, offset // UNIT_BYTES

    def append(self, node: Span, units: bytes) -> Span:
        """Put `units` below a locked node or a root, and move one lock along; returns the leaf."""
        self._now += 1
        leaf = Span(units, node, self._now)
        leaf.locks = 1
        assert units[:UNIT_BYTES] not in node.children, "the units are cached already"
        node.children[units[:UNIT_BYTES]] = leaf
        self.num_units += leaf.num_units
        return leaf

    def lock(self, node: Span) -> None:
        """Protect the path to `node`."""
        above: Span | None = node
        while above is not None:
            above.locks += 1
            self._settle(above)
            above = above.parent

    def unlock(self, node: Span) -> None:
        """Take one lock off the path to `node`."""
        above: Span | None = node
        while above is not None:
            above.locks -= 1
            assert above.locks >= 0, "unlocked more often than locked"
            self._settle(above)
            above = above.parent

    def victim(self) -> Span | None:
        """The unlocked leaf that was used longest ago; None when there is none."""
        while self._order:
            _, ticket, leaf = self._order[0]
            if leaf.ticket == ticket:
                return leaf
            heappop(self._order)
        return None

    def remove(self, leaf: Span) -> int:
        """Drop a leaf; returns its length. Its parent may become a leaf."""
        assert leaf.parent is not None, "a root holds nothing"
        assert leaf.ticket, "it is no unlocked leaf"
        self._discard(leaf)
        del leaf.parent.children[leaf.key[:UNIT_BYTES]]
        self.num_units -= leaf.num_units
        self._settle(leaf.parent)
        return leaf.num_units

    def trim(self, leaf: Span, count: int) -> int:
        """Drop up to `count` units from the end of a leaf; returns how many."""
        if count >= leaf.num_units:
            return self.remove(leaf)
        assert leaf.ticket, "it is no unlocked leaf"
        leaf.key = leaf.key[: -count * UNIT_BYTES]
        self.num_units -= count
        return count

    def nodes(self) -> Iterator[Span]:
        """Every node, roots too, in any sequence."""
        pending = list(self._roots.values())
        while pending:
            node = pending.pop()
            pending += node.children.values()
            yield node

    def _touch(self, node: Span) -> None:
        self._discard(node)
        node.used = self._now
        self._settle(node)

    def _split(self, node: Span, offset: int) -> Span:
        """Cut a node at a byte of its key; returns the upper part, which is new."""
        assert node.parent is not None, "a root has no units"
        upper = Span(node.key[:offset], node.parent, self._now)
        upper.locks = node.locks
        upper.parent = node.parent
        node.parent.children[node.key[:UNIT_BYTES]] = upper
        node.key = node.key[offset:]
        node.parent = upper
        upper.children[node.key[:UNIT_BYTES]] = node
        return upper

    def _settle(self, node: Span) -> None:
        """Enter an unlocked leaf into the order; take out what has ceased to be one."""
        evictable = node.locks == 0 and not node.children and node.parent is not None
        if not evictable:
            self._discard(node)
        elif node.ticket == 0:
            if len(self._order) > 2 * self._num_leaves + self._SLACK:
                self._order = [entry for entry in self._order if entry[2].ticket == entry[1]]
                heapify(self._order)
            self._last_ticket += 1
            self._num_leaves += 1
            node.ticket = self._last_ticket
            heappush(self._order, (node.used, node.ticket, node))

    def _discard(self, node: Span) -> None:
        if node.ticket:
            node.ticket = 0
            self._num_leaves -= 1
