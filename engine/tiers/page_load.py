"""`PageLoad`: what a request that waits has asked of the tiers. A value that its request carries.

Knows no tier: `tiers.py` fills it in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class PageLoad:
    """digests: the names of the prompt's whole pages, from its beginning.

    wanted: of these, those that are being read, perhaps for others too. deadline: until when they
    are waited for, whatever the store does (time.monotonic). reason: why no more was read.
    """

    digests: list[bytes]
    wanted: set[bytes] = field(default_factory=set)
    deadline: float = math.inf
    reason: str | None = None
