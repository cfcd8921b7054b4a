"""How much two token sequences have in common."""

from __future__ import annotations

from radixchat.engine.common_prefix import common_prefix


def test_common_prefix() -> None:
    """How many leading ids are equal, whichever is longer."""
    assert common_prefix((1, 2, 3), (1, 2, 4)) == 2
    assert common_prefix((1, 2), [1, 2, 3]) == common_prefix((1, 2, 3), [1, 2]) == 2
    assert common_prefix((), (1,)) == common_prefix((2,), (1,)) == 0
