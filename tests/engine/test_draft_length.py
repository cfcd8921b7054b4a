"""The length of drafts: what pays, with hysteresis, and probes where nothing does."""

from __future__ import annotations

import random

import pytest

from radixchat.engine.draft_length import HYSTERESIS, LENGTHS, PROBE_EVERY, WORTH, DraftLength


def trained(right: float, rounds: int = 400, seed: int = 0) -> list[int]:
    """The lengths chosen while each token is right with probability `right`, the later half."""
    rng = random.Random(seed)
    length = DraftLength(0.5)
    chosen = []
    for _ in range(rounds):
        count = length.next()
        chosen.append(count)
        accepted = next((i for i in range(count) if rng.random() >= right), count)
        if count:
            length.report(count, accepted)
    return chosen[rounds // 2 :]


@pytest.mark.parametrize(
    ("right", "expected"), [(0.3, 2), (0.75, 4), (0.93, 7), (0.96, 15), (1.0, 31)]
)
def test_the_length_that_pays_most_is_the_usual_one(right: float, expected: int) -> None:
    """Most drafts have the length whose tokens per row are best at that share of right tokens."""
    chosen = trained(right)
    assert max(set(chosen), key=chosen.count) == expected


def test_what_never_pays_is_rarely_tried() -> None:
    """A probe of the shortest length once in PROBE_EVERY chances, and nothing between."""
    chosen = trained(0.0, rounds=20 * PROBE_EVERY)
    assert set(chosen) == {0, LENGTHS[1]}
    assert chosen.count(LENGTHS[1]) == 10


def test_a_probe_that_is_right_starts_it_again() -> None:
    """Text that begins to repeat is found by the next probe."""
    length = DraftLength(0.0)
    chances = [length.next() for _ in range(PROBE_EVERY)]
    assert chances == [0] * (PROBE_EVERY - 1) + [LENGTHS[1]]
    length.report(LENGTHS[1], LENGTHS[1])
    assert length.next() == LENGTHS[1]


def test_a_share_at_a_border_does_not_change_the_length_each_time() -> None:
    """Between what a length is worth and HYSTERESIS below, it stays as it is, from both sides."""
    border = WORTH[2] - HYSTERESIS / 2
    assert DraftLength(border).next() == LENGTHS[1]
    above = DraftLength(WORTH[2] + 0.01)
    assert above.next() == LENGTHS[2]
    above.report(2, 1)  # one of two: a little down, not below the hysteresis
    assert above.next() == LENGTHS[2]
    for _ in range(5):
        above.report(2, 0)
    assert above.next() == LENGTHS[1]


def test_a_report_of_more_than_was_proposed_is_a_bug() -> None:
    """It is asserted, for the estimate would exceed 1."""
    with pytest.raises(AssertionError):
        DraftLength(0.5).report(3, 4)
