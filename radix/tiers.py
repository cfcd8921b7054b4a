"""`TierMarks`: which pages have a copy below the device, by the hash chain of their prefix.

The tree is the truth about the device pool; here is only noted that a page can be had from
elsewhere. A page is named by the chain of its tokens and all before it, as in vLLM's block hash,
so a mark needs no node, and a copy outlives the page it was made from. Only whole pages have
copies. Moves no data and knows no tier's capacity: whoever moves a page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

from radixchat.radix.node import TOKEN_BYTES

DIGEST_BYTES = 16


class Tier(IntEnum):
    """Where a page's K/V lies, fastest first."""

    DEVICE = 0
    HOST = 1
    DISK = 2
    STORE = 3


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens [start, end) can be had from `tier`."""

    tier: Tier
    start: int
    end: int


def page_digests(namespace: bytes, tokens: bytes, page_size: int) -> Iterator[bytes]:
    """A name of 16 bytes for each whole page of int32 `tokens`, chained from the first on."""
    above = blake2b(namespace, digest_size=DIGEST_BYTES).digest()
    size = page_size * TOKEN_BYTES
    for end in range(size, len(tokens) + 1, size):
        above = blake2b(above + tokens[end - size : end], digest_size=DIGEST_BYTES).digest()
        yield above


class TierMarks:
    """The tiers below the device in which each page has a copy."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._tiers: dict[bytes, int] = {}  # digest -> a bit for each tier

    def __len__(self) -> int:
        return len(self._tiers)

    def move(
        self, namespace: bytes, tokens: bytes, start: int, source: Tier | None, target: Tier | None
    ) -> None:
        """The whole pages of `tokens` from position `start` on: one copy less, one copy more."""
        for index, digest in enumerate(page_digests(namespace, tokens, self._page_size)):
            if index * self._page_size < start:
                continue
            tiers = self._tiers.pop(digest, 0)
            if source is not None:
                tiers &= ~(1 << source)
            if target is not None:
                tiers |= 1 << target
            if tiers > 1 << Tier.DEVICE:
                self._tiers[digest] = tiers & ~(1 << Tier.DEVICE)

    def add(self, digest: bytes, tier: Tier) -> None:
        """A tier has a copy of the page of that name."""
        assert tier is not Tier.DEVICE, "the tree knows what the device has"
        self._tiers[digest] = self._tiers.get(digest, 0) | 1 << tier

    def remove(self, digest: bytes, tier: Tier) -> None:
        """A tier has no copy of it any more."""
        tiers = self._tiers.pop(digest, 0) & ~(1 << tier)
        if tiers:
            self._tiers[digest] = tiers

    def has(self, digest: bytes, tier: Tier) -> bool:
        """Whether a tier has a copy of it."""
        return bool(self._tiers.get(digest, 0) & 1 << tier)

    def spans(self, namespace: bytes, tokens: bytes, start: int) -> list[Span]:
        """What follows position `start` without a gap, each page from its fastest tier."""
        found: list[Span] = []
        if not self._tiers:
            return found
        for index, digest in enumerate(page_digests(namespace, tokens, self._page_size)):
            end = (index + 1) * self._page_size
            if end <= start:
                continue
            tiers = self._tiers.get(digest)
            if tiers is None:
                break
            tier = Tier((tiers & -tiers).bit_length() - 1)
            if found and found[-1].tier is tier:
                found[-1] = Span(tier, found[-1].start, end)
            else:
                found.append(Span(tier, found[-1].end if found else start, end))
        return found

    def forget(self, namespace: bytes, tokens: bytes, start: int) -> None:
        """Drop every mark of the pages that reach beyond position `start`."""
        for index, digest in enumerate(page_digests(namespace, tokens, self._page_size)):
            if (index + 1) * self._page_size > start:
                self._tiers.pop(digest, None)
