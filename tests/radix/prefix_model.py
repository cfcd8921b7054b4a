"""`PrefixModel`: what a cache should hold: a set of prefixes, and who used each of them when.

Knows nothing of nodes and pages. What an eviction leaves is told to it, not predicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from radixchat.tests.radix.prefix_numbers import Above, PrefixNumbers


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The uses of a cached prefix: the number of the last release, and whose they were.

    Prefixes that were always used together have one and the same.
    """

    stamp: int  # before the first use: that of the commit
    uses: int = 0
    last: str | None = None
    users: frozenset[str | None] = frozenset()


class PrefixModel:
    """cached: every prefix in the tree, by number. lost: gone, and not stored again since.

    evicted: those of the lost that no purge has touched.
    """

    def __init__(self, numbers: PrefixNumbers) -> None:
        self.cached: dict[int, Past] = {}
        self.lost: set[int] = set()
        self.evicted: set[int] = set()
        self._numbers = numbers
        self._releases = 0

    def store(self, prefixes: Iterable[int]) -> None:
        """These are new."""
        past = Past(self._releases)
        for prefix in prefixes:
            self.cached[prefix] = past
            self.lost.discard(prefix)
            self.evicted.discard(prefix)

    def use(self, prefixes: Iterable[int], conversation: str | None) -> None:
        """A request that held these was released."""
        self._releases += 1
        later: dict[Past, Past] = {}
        for prefix in prefixes:
            past = self.cached[prefix]
            if past not in later:
                users = past.users | {conversation}
                later[past] = Past(self._releases, past.uses + 1, conversation, users)
            self.cached[prefix] = later[past]

    def keep(self, left: set[int]) -> None:
        """All but these were evicted."""
        gone = self.cached.keys() - left
        self.lost |= gone
        self.evicted |= gone
        self.cached = {prefix: self.cached[prefix] for prefix in left}

    def forget(self, path: list[int], left: set[int]) -> None:
        """A path was purged: all but these are gone; what followed those is forgotten too."""
        gone = {path[-1], *(self.cached.keys() - left)}
        self.keep(left)
        self.evicted -= {*path, *gone, *self.below(gone)}

    def length(self, path: list[int]) -> int:
        """How many of a path are cached."""
        return next((i for i, prefix in enumerate(path) if prefix not in self.cached), len(path))

    def branches(self) -> Counter[Above]:
        """How many cached prefixes are one token longer, for each prefix or namespace."""
        return Counter(self._numbers.parents[prefix] for prefix in self.cached)

    def below(self, tops: set[int]) -> set[int]:
        """Every known prefix that continues one of these."""
        below = set(tops)
        for prefix, above in self._numbers.parents.items():  # parents come first
            if above in below:
                below.add(prefix)
        return below - tops
