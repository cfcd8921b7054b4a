"""`Mutant`: a seeded bug of the index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

from radixchat.radix.cache import PrefixCache
from radixchat.tests.seeded_bug import SeededBug


@dataclass(frozen=True, slots=True)
class Mutant(SeededBug):
    """A bug of radix/<module>.py.

    check: asserts what this bug breaks and the state machine cannot see; it takes the class.
    """

    PACKAGE: ClassVar[str] = "radix"
    ROOT: ClassVar[str] = "cache"

    check: Callable[[type[PrefixCache]], None] | None = None

    def load(self) -> type[PrefixCache]:
        """The class `PrefixCache` of an index with this bug; LookupError if it does not apply."""
        return cast("type[PrefixCache]", self.load_root().PrefixCache)
