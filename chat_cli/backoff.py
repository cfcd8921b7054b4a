"""How long to wait before a server is asked again, and when to give up. Standard library."""

from __future__ import annotations

import random
from dataclasses import dataclass

# A server that says to come back in an hour is tried sooner: it may be another one by then.
MAX_HINT_S = 60.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds: the first wait, doubled with each try up to `most_s`; each a little shorter.

    So many clients that lost one server do not come back at the same moment. patience_s: after so
    long without an event of an answer, or a reply, it is given up. busy_s: so long a conversation
    that somebody else is answering is asked for again: their answer may be at its end.
    """

    first_s: float = 0.5
    most_s: float = 8.0
    patience_s: float = 120.0
    busy_s: float = 2.0

    def delay_s(self, tries: int, hint_s: float = 0.0) -> float:
        """Before try number `tries`, from 0; never sooner than the server asked."""
        longest = min(self.first_s * 2.0 ** min(tries, 32), self.most_s)
        return max(longest * random.uniform(0.75, 1.0), min(hint_s, MAX_HINT_S))
