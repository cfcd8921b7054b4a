"""Where a prompt's tokens would come from if it came now: `outlook`. Changes nothing.

Says no more than would be done: what is below the pool, and is too short or too slow to be brought
back, counts as computed. Runs on the engine's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.engine.tiers.tiers import MIN_USEFUL_TOKENS, Tiers
from radixchat.radix.allocation import Match, PageCache
from radixchat.radix.tiers import Span, Tier


def outlook(
    cache: PageCache, tiers: Tiers | None, tokens: Sequence[int], namespace: bytes
) -> tuple[Span, ...]:
    """Spans from the first token on, without a gap. One token is always computed."""
    match = cache.match(tokens, namespace)
    below = [span for span in match.spans if span.tier is not Tier.DEVICE]
    last = max(len(tokens) - 1, 0)
    found = [Span(Tier.DEVICE, 0, min(match.length, last))] if match.length else []
    if tiers is not None and below:
        whole = last - last % cache.page_size
        reach = min(_reach(match, below, tiers), whole)
        found += [Span(s.tier, s.start, min(s.end, reach)) for s in below]
    return tuple(span for span in found if span.start < span.end)


def _reach(match: Match, below: Sequence[Span], tiers: Tiers) -> int:
    """Up to which position they would be brought back."""
    gate, stored = tiers.gate, tiers.store_tier
    if gate.objection(Tier.HOST) is not None:
        return match.length
    to_read = sum(span.end - span.start for span in below if span.tier is stored)
    if to_read >= MIN_USEFUL_TOKENS and gate.objection(stored) is None:
        return below[-1].end
    return next((span.start for span in below if span.tier is stored), below[-1].end)
