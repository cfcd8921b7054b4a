"""Where a prompt's tokens would come from if it came now: `outlook`. Changes nothing.

Says no more than would be done: what is below the pool, and is too short or too slow to be brought
back, counts as computed. Runs on the engine's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.engine.tiers.page_reader import MIN_USEFUL_TOKENS
from radixchat.engine.tiers.tiers import Tiers
from radixchat.radix.allocation import Match, PageCache
from radixchat.radix.tiers import Span, Tier


def outlook(
    cache: PageCache, tiers: Tiers | None, tokens: Sequence[int], namespace: bytes
) -> tuple[Span, ...]:
    """Spans from the first token on, without a gap. One token is always computed."""
    match = cache.match(tokens, namespace)
    below = [span for span in match.spans if span.tier is not Tier.DEVICE]
    last = max(len(tokens) - 1, 0)
    found = _up_to(last, [Span(Tier.DEVICE, 0, match.length)] if match.length else [])
    if tiers is not None and below:
        below = _up_to(last - last % cache.page_size, below)
        found += _up_to(_reach(match, below, tiers), below)
    return tuple(found)


def _up_to(end: int, spans: Sequence[Span]) -> list[Span]:
    return [Span(span.tier, span.start, min(span.end, end)) for span in spans if span.start < end]


def _reach(match: Match, below: Sequence[Span], tiers: Tiers) -> int:
    """Up to which position they would be brought back."""
    gate, stored = tiers.gate, tiers.store_tier
    if not below:
        return match.length
    if gate.objection(Tier.HOST) is not None:
        return match.length
    to_read = sum(span.end - span.start for span in below if span.tier is stored)
    if to_read >= MIN_USEFUL_TOKENS and gate.objection(stored) is None:
        return below[-1].end
    return next((span.start for span in below if span.tier is stored), below[-1].end)
