"""`RadixTree`: token prefixes → page ids. Match, acquire, insert, evict.

Owns the nodes, their locks and the logical clock. It takes and drops the nodes' references
on pages, but hands out no page; it does not know requests (`cache.py` does) nor tensors.
What a node is, and which page is read where several nodes touch one, is drawn in `node.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from radixchat.radix.eviction import EvictionPolicy
from radixchat.radix.node import TOKEN_BYTES, Node, Root, descend
from radixchat.radix.pool import PagePool
from radixchat.radix.tenants import TenantOrder
from radixchat.radix.use import UNUSED, Use


class RadixTree:
    """Every cached prefix of every namespace."""

    def __init__(
        self,
        pool: PagePool,
        page_size: int,
        policy: EvictionPolicy,
        on_leave: Callable[[Node, int, bool], None],
    ) -> None:
        """`on_leave(leaf, end, purged)` is called before a leaf is cut at position `end`."""
        self.page_size = page_size
        self.policy = policy
        self.roots: dict[bytes, Root] = {}
        self.num_nodes = 0  # without the roots
        self.num_tokens = 0
        self.num_evictable = 0  # pages that only unheld nodes hold
        self.num_evicted_tokens = 0  # dropped to make room, since it was made
        self._pool = pool
        self._on_leave = on_leave
        self._tenants = policy if isinstance(policy, TenantOrder) else None
        self._now = 0

    def find(self, namespace: bytes, tokens: bytes) -> tuple[Node, int]:
        """The deepest node on the path of `tokens`, and how many of them are cached."""
        return descend(self.roots.get(namespace) or Root(namespace), tokens)

    def longest_fit(
        self, node: Node, length: int, num_pages: int, spare: int = 0
    ) -> tuple[Node, int] | None:
        """How much of a match, `length` tokens down to `node`, a request can use now.

        `num_pages`: all it needs. `spare`: to be left for others. Locking the match pins pages
        that could be evicted, and where several nodes of the path touch one page index, or the
        match ends in mid-page, more of them than it saves. When that leaves no room the match is
        cut at page borders until it fits, so that a request that fits the pool is not refused
        while it is alone.
        None: there is no room, whatever the cut.
        """
        room = self._pool.num_free + self.num_evictable - spare
        while True:
            pinned, held = self._pinned_by(node, length)
            if num_pages - length // self.page_size + pinned <= room:
                return node, length
            if pinned == 0 or num_pages - -(-held // self.page_size) > room:
                return None
            length = (length - 1) // self.page_size * self.page_size
            while node.parent is not None and node.start >= length:
                node = node.parent

    def _pinned_by(self, node: Node, length: int) -> tuple[int, int]:
        """Pages that locking would make unevictable, and tokens that are locked already."""
        pinned, above = 0, node
        while above.locks == 0 and above.parent is not None:
            last = (min(length, above.end) - 1) // self.page_size
            pinned += last + 1 - above.start // self.page_size - self._borrows(above)
            above = above.parent
        return pinned, min(length, above.end)

    def acquire(self, node: Node, length: int) -> Node:
        """Lock the first `length` tokens of the path to `node`; returns where they end."""
        node = self._split(node, length)
        self._lock(node, None)
        return node

    def advance(self, held: Node, tokens: bytes) -> tuple[Node, int]:
        """Move a lock from `held` down along `tokens`, as far as they are cached."""
        node, length = descend(held, tokens)
        node = self._split(node, held.end + length)
        self._lock(node, held)
        return node, length

    def insert(self, node: Node, tokens: bytes, pages: list[int]) -> Node:
        """Append `tokens` to a locked node whose lock moves along; returns where they end.

        `pages` hold them, from the page index of the first new token on; pages[0] holds all
        tokens of the path at its index. A leaf that only this request holds grows in place.
        """
        partial = node.end % self.page_size != 0
        self._count(node, len(tokens) // TOKEN_BYTES)
        alone = node.locks == 1 and not node.children and node.parent is not None
        if alone and (not partial or node.pages[-1] == pages[0]):
            added = pages[1:] if partial else pages
            if added and node.use is not UNUSED:
                node.marks = (*node.marks, (-(-node.end // self.page_size), node.use))
                node.use = UNUSED
            self._pool.hold(added)
            node.key += tokens
            node.pages.extend(added)
            return node
        child = Node(node.end, bytearray(tokens), array("i", pages), node)
        child.locks = 1
        self._pool.hold(pages)
        if not node.children:
            node.children = {}
        node.children[child.first] = child
        self.num_nodes += 1
        return child

    def release(self, held: Node, time: float, conversation: str | None) -> None:
        """Unlock the path to `held`; it was in use until now."""
        self._now += 1
        use = Use(self._now, time, conversation, held.end)
        node: Node | None = held
        while node is not None:
            node.locks -= 1
            assert node.locks >= 0, "unlocked more often than locked"
            use = node.use_again(use)
            if node.locks == 0:
                self.num_evictable += len(node.pages) - self._borrows(node)
            node = node.parent
        node = held
        while node is not None and node.locks == 0:
            parent = node.parent
            self._settle(node)
            node = parent
        while self._tenants and (over := self._tenants.over_quota(held.root.namespace)):
            self._trim(over[0], -(-over[1] // self.page_size))

    def supersede(self, node: Node, start: int, conversation: str) -> None:
        """Mark what the path to `node` has beyond `start` as left by its only conversation."""
        below: Node | None = node
        while below is not None and below.end > start:
            position = max(start, below.only_used_by(conversation, self.page_size))
            # A first page that begins with the parent's tokens is a copy of the branch's own.
            whole = position == below.start
            border = (position if whole else position + self.page_size - 1) // self.page_size
            if below.locks == 0 and border * self.page_size < below.end:
                if below.ticket:
                    self.policy.discard(below)
                below.supersede(border, self.page_size)
                if not below.children:
                    self.policy.add(below)
            below = below.parent

    def purge(self, namespace: bytes, tokens: bytes, start: int, conversation: str) -> int:
        """Remove what a conversation has beyond `start`; returns how many pages became free.

        Its path itself goes as far as nothing else hangs below it, whoever used it; of what
        hangs below that, only what no other conversation has used. What is held stays.
        """
        before = self._pool.num_free
        node, length = self.find(namespace, tokens)
        # A merge leaves the lower node, so that those found here stay leaves until they are cut.
        for leaf in [leaf for leaf in self._below(node) if not leaf.children] if length else []:
            position = max(start, leaf.only_used_by(conversation, self.page_size))
            self._cut_if_free(leaf, position)
        node, length = self.find(namespace, tokens)
        if length == node.end:
            self._cut_if_free(node, max(start, node.start))
        return self._pool.num_free - before

    def drop(self, namespace: bytes) -> int:
        """Remove what nobody holds of a namespace; returns how many pages became free."""
        before = self._pool.num_free
        root = self.roots.get(namespace)
        for leaf in [node for node in self._below(root) if not node.children] if root else []:
            node: Node | None = leaf
            # One that was merged into its last child keeps that, and the path ends there.
            while node is not None and node.parent and not (node.locks or node.children):
                above = node.parent
                self._cut(node, node.start, purged=True)
                node = above
        return self._pool.num_free - before

    def _cut_if_free(self, node: Node, position: int) -> None:
        """Purge what an unheld leaf has from `position` on."""
        if position < node.end and not (node.locks or node.children):
            self._cut(node, position, purged=True)

    def path(self, node: Node) -> tuple[bytes, bytes]:
        """The namespace of a node, and all tokens from its root to its end."""
        keys: list[bytearray] = []
        above: Node | None = node
        while above is not None:
            keys.append(above.key)
            above = above.parent
        return node.root.namespace, b"".join(reversed(keys))

    def page_table(self, node: Node, first: int, last: int) -> list[int]:
        """The pages to read at the indices [first, last) of the path to `node`."""
        pages = [0] * (last - first)
        above: Node | None = node
        while last > first:
            assert above is not None, "the path is shorter than the page table"
            begin = above.start // self.page_size
            low = max(begin, first)
            if low < last:
                pages[low - first : last - first] = above.pages[low - begin : last - begin]
                last = low
            above = above.parent
        return pages

    def evict(self, num_free: int) -> None:
        """Trim leaves until the pool has `num_free` free pages, or all that is left is held."""
        while (missing := num_free - self._pool.num_free) > 0:
            leaf = self.policy.victim()
            if leaf is None:
                return
            if self._tenants is not None and (spare := self._tenants.tokens_to_spare(leaf)):
                missing = min(missing, -(-spare // self.page_size))
            self._trim(leaf, missing)

    def _trim(self, leaf: Node, count: int) -> None:
        """Drop up to `count` pages from the tip of a leaf, all of them last used together."""
        begin = leaf.start // self.page_size
        later = leaf.marks[-1][0] - begin if leaf.marks else 0
        count = min(count, len(leaf.pages) - later)
        end = (begin + len(leaf.pages) - count) * self.page_size
        self._cut(leaf, max(leaf.start, end))

    def _cut(self, leaf: Node, end: int, *, purged: bool = False) -> None:
        """Drop the tokens of an unheld leaf from position `end` on, and the pages of only those."""
        self.num_evicted_tokens += 0 if purged else leaf.end - end
        self._on_leave(leaf, end, purged)
        if end == leaf.start:
            self._remove(leaf)
            return
        self.policy.discard(leaf)
        last = -(-end // self.page_size)
        kept = last - leaf.start // self.page_size
        self.num_evictable -= self._pool.drop(leaf.pages[kept:])
        self._count(leaf, end - leaf.end)
        del leaf.pages[kept:]
        del leaf.key[(end - leaf.start) * TOKEN_BYTES :]
        while leaf.marks and leaf.marks[-1][0] >= last:
            leaf.use = leaf.marks[-1][1]
            leaf.marks = leaf.marks[:-1]
        self.policy.add(leaf)

    def _remove(self, leaf: Node) -> None:
        self.policy.discard(leaf)
        self.num_evictable -= self._pool.drop(leaf.pages)
        self._count(leaf, leaf.start - leaf.end)
        self.num_nodes -= 1
        assert leaf.parent is not None, "a root holds no page"
        del leaf.parent.children[leaf.first]
        if leaf.parent.locks == 0:
            self._settle(leaf.parent)

    def _count(self, node: Node, num_tokens: int) -> None:
        self.num_tokens += num_tokens
        node.root.num_tokens += num_tokens

    def _settle(self, node: Node) -> None:
        """Put an unheld node right after its lock went or a child of it did."""
        if isinstance(node, Root):
            if not node.children:
                del self.roots[node.namespace]
        elif not node.children:
            self.policy.add(node)
        elif len(node.children) == 1:
            self._merge(node)

    def _lock(self, node: Node, held: Node | None) -> None:
        """Lock the path to `node`, below `held` if that is locked already."""
        above: Node | None = node
        while above is not held:
            assert above is not None, "the held node is not on the path"
            if above.locks == 0:
                self.num_evictable -= len(above.pages) - self._borrows(above)
                if isinstance(above, Root):
                    self.roots[above.namespace] = above
                elif not above.children:
                    self.policy.discard(above)
            above.locks += 1
            above = above.parent

    def _borrows(self, node: Node) -> bool:
        """Whether a node above holds the first page too: then that one counts it."""
        border = node.start - node.start % self.page_size
        above = node.parent
        while above is not None and above.end > border:
            if above.pages[-1] == node.pages[0]:
                return True
            above = above.parent
        return False

    def _split(self, node: Node, position: int) -> Node:
        """Cut `node` at a position; returns the part that ends there.

        The lower part stays the same object, so what is anchored at its end stays there.
        """
        if position == node.end:
            return node
        assert node.start < position < node.end
        assert node.parent is not None, "a root is never cut"
        evictable = node.ticket != 0
        if evictable:
            self.policy.discard(node)
        begin, last = node.start // self.page_size, (position - 1) // self.page_size
        first_lower = position // self.page_size
        cut = (position - node.start) * TOKEN_BYTES
        upper = Node(node.start, node.key[:cut], node.pages[: last + 1 - begin], node.parent)
        upper.locks = node.locks
        upper.marks = tuple(mark for mark in node.marks if mark[0] <= last)
        upper.use = next((use for index, use in node.marks if index > last), node.use)
        node.parent.children[upper.first] = upper
        node.start, node.key, node.parent = position, node.key[cut:], upper
        node.pages = node.pages[first_lower - begin :]
        node.marks = tuple(mark for mark in node.marks if mark[0] > first_lower)
        upper.children = {}
        upper.children[node.first] = node
        if first_lower == last:
            self._pool.hold(node.pages[:1])
        self.num_nodes += 1
        if evictable:
            self.policy.add(node)
        return upper

    def _merge(self, upper: Node) -> None:
        """Join an unheld node with its only child, which stays the same object."""
        (lower,) = upper.children.values()
        assert upper.parent is not None, "a root is never merged"
        if lower.ticket:
            self.policy.discard(lower)
        seam = -(-upper.end // self.page_size)
        if seam > (lower.end - 1) // self.page_size:
            # It adds no page, and the page that both touch was last used with the upper one.
            lower.use, lower.marks = upper.use, upper.marks
        elif upper.use is (lower.marks[0][1] if lower.marks else lower.use):
            lower.marks = upper.marks + lower.marks
        else:
            below = (mark for mark in lower.marks if mark[0] > seam)
            lower.marks = (*upper.marks, (seam, upper.use), *below)
        if upper.end % self.page_size:
            # The lower page at this index holds the upper node's tokens as well.
            self.num_evictable -= self._pool.drop([upper.pages.pop()])
        lower.start, lower.parent = upper.start, upper.parent
        lower.key, lower.pages = upper.key + lower.key, upper.pages + lower.pages
        lower.parent.children[lower.first] = lower
        self.num_nodes -= 1
        if not (lower.children or lower.locks):
            self.policy.add(lower)

    def nodes(self) -> Iterator[Node]:
        """Every node, roots included, parents first."""
        for root in self.roots.values():
            yield from self._below(root)

    def _below(self, node: Node) -> Iterator[Node]:
        """A node and every node below it, parents first."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())
