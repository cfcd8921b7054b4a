"""How much two token sequences have in common from their beginning. Knows token ids only."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading tokens are equal."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:  # at the speed of C, where both are of one type
        return length
    return next(
        (count for count, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        length,
    )
