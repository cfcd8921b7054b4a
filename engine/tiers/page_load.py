"""`PageLoad`: what a request that waits has asked of the tiers. A value that its request carries.

Knows no tier: `tiers.py` fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from radixchat.radix.tiers import Tier


@dataclass(slots=True)
class PageLoad:
    """digests: the names of the prompt's whole pages, from its beginning.

    wanted: of these, those that are being read, perhaps for others too. source: where a page has
    come from for this request, of those that were not in memory. reason: why no more was read.
    """

    digests: list[bytes]
    wanted: set[bytes] = field(default_factory=set)
    source: dict[bytes, Tier] = field(default_factory=dict)
    reason: str | None = None
