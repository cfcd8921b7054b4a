"""`TenantOrder`: floors and quotas of tenants, over any eviction policy.

A tenant is a namespace. Each one with limits has an eviction order of its own, all others share
one. What a flood of one tenant needs is taken from those above their floor, so the first `floor`
tokens of another stay while anything else can go. Protection is soft: when nothing else is left
they go too, and no limit ever refuses or delays a request. Between orders the least recently used
leaf goes first; within one its policy decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from radixchat.radix.eviction import EvictionPolicy
from radixchat.radix.node import Node
from radixchat.radix.use import Signal


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Cached tokens of one tenant: at least `floor`, to a page, at most `quota` (None: no quota).

    Above its quota a tenant's own leaves go as soon as its requests release them.
    """

    floor: int = 0
    quota: int | None = None

    def __post_init__(self) -> None:
        if self.floor < 0:
            raise ValueError(f"floor is {self.floor}; it must be at least 0")
        if self.quota is not None and self.quota < self.floor:
            raise ValueError(f"quota is {self.quota}; it must be at least the floor, {self.floor}")


class TenantOrder:
    """An EvictionPolicy that keeps one order for each limited tenant and one for the rest."""

    def __init__(
        self, make_policy: Callable[[], EvictionPolicy], limits: Mapping[bytes, TenantLimits]
    ) -> None:
        """`limits`: by namespace."""
        self._limits = dict(limits)
        self._rest = make_policy()
        self._orders = {namespace: make_policy() for namespace in limits}

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""
        self._order(leaf).add(leaf)

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable."""
        self._order(leaf).discard(leaf)

    def victim(self) -> Node | None:
        """The least recently used of the orders' victims, of those above their floor if any is."""
        leaves = [leaf for order in self._all() if (leaf := order.victim()) is not None]
        above = [leaf for leaf in leaves if self.tokens_to_spare(leaf) > 0]
        return min(above or leaves, key=lambda leaf: leaf.use.stamp, default=None)

    def tokens_to_spare(self, leaf: Node) -> int:
        """How many tokens the tenant of a leaf has above its floor; 0: none."""
        limits = self._limits.get(leaf.root.namespace)
        return max(0, leaf.root.num_tokens - limits.floor) if limits else leaf.root.num_tokens

    def over_quota(self, namespace: bytes) -> tuple[Node, int] | None:
        """A leaf that must go, and how many tokens its tenant has above its quota."""
        limits = self._limits.get(namespace)
        if limits is None or limits.quota is None:
            return None
        leaf = self._orders[namespace].victim()
        if leaf is None or leaf.root.num_tokens <= limits.quota:
            return None
        return leaf, leaf.root.num_tokens - limits.quota

    def leaves(self) -> Iterator[Node]:
        """Every leaf in any of the orders."""
        for order in self._all():
            yield from order.leaves()

    def observe(self, conversation: str, signal: Signal) -> None:
        """Tell every order: a conversation is not tied to a namespace here."""
        for order in self._all():
            order.observe(conversation, signal)

    def _order(self, leaf: Node) -> EvictionPolicy:
        return self._orders.get(leaf.root.namespace, self._rest)

    def _all(self) -> Iterator[EvictionPolicy]:
        yield self._rest
        yield from self._orders.values()
