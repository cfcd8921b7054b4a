"""`CostGate`: what is quicker comes back, what is slower is computed, and a change shows."""

from __future__ import annotations

import math

import pytest

from radixchat.engine.tiers.cost_gate import (
    MIN_PATIENCE_S,
    MIN_TOKENS,
    PATIENCE,
    PROBE_EVERY,
    CostGate,
    Verdict,
)
from radixchat.radix.tiers import Tier


def gate(mode: str = "measured", *, prefill_us: float = 1000) -> CostGate:
    """One that has seen what computing takes."""
    made = CostGate(mode, least_prefill_us=1)
    made.computed(1000, prefill_us * 1e-3)
    assert made.prefill_us == pytest.approx(prefill_us)
    return made


def test_the_quicker_of_two() -> None:
    """Below what computing takes all of a span comes back; above, none, with both numbers."""
    quick, slow = gate(), gate()
    quick.loaded(Tier.DISK, 1000, 0.9)
    assert quick.admits(Tier.DISK, 7) == Verdict(7)
    slow.loaded(Tier.DISK, 1000, 1.1)
    assert slow.admits(Tier.DISK, 7) == Verdict(0, "disk takes 1100 us a token, computing 1000")
    assert slow.objection(Tier.DISK) == slow.admits(Tier.DISK, 7).reason


def test_a_tier_that_nobody_has_tried_is_tried() -> None:
    """Each tier has its own measure."""
    made = gate()
    made.loaded(Tier.DISK, 100, 1)
    assert made.admits(Tier.HOST, 3) == Verdict(3)
    assert made.admits(Tier.DISK, 3).pages == 0
    assert made.load_us(Tier.HOST) is None
    assert made.load_us(Tier.DISK) == pytest.approx(1e4)


def test_before_anything_was_computed_it_counts_as_quick() -> None:
    """Nothing is loaded on the strength of a guess that the machine is slow."""
    made = CostGate("measured", least_prefill_us=50)
    made.loaded(Tier.DISK, 100, 0.006)
    assert made.admits(Tier.DISK, 1) == Verdict(0, "disk takes 60 us a token, computing 50")
    made.computed(MIN_TOKENS - 1, 9.0)  # what a small step takes is no measure of a token
    assert made.admits(Tier.DISK, 1).pages == 0
    made.computed(MIN_TOKENS, MIN_TOKENS * 70e-6)
    assert made.admits(Tier.DISK, 1) == Verdict(1)


@pytest.mark.parametrize(("before", "after"), [(0.1, 10.0), (10.0, 0.1)])
def test_what_changes_is_learnt(before: float, after: float) -> None:
    """A few loads turn the verdict; one alone does not have all the say."""
    made = gate()
    made.loaded(Tier.DISK, 1000, before)
    admitted = made.admits(Tier.DISK, 5).pages
    loads = 0
    while made.admits(Tier.DISK, 5).pages == admitted:
        made.loaded(Tier.DISK, 1000, after)
        loads += 1
    assert 1 <= loads <= 20


def test_a_tier_that_was_too_slow_is_tried_with_one_page() -> None:
    """Every so often, and so it comes back when it has become quick."""
    made = gate()
    made.loaded(Tier.DISK, 1000, 50)
    tried = [made.admits(Tier.DISK, 9).pages for _ in range(4 * PROBE_EVERY)]
    assert tried.count(1) == 4
    assert set(tried) == {0, 1}
    asked = 0
    while made.admits(Tier.DISK, 9).pages < 9:
        asked += 1
        if asked % PROBE_EVERY == 0:
            made.loaded(Tier.DISK, 16, 16e-6)
    assert asked < 20 * PROBE_EVERY


def test_looking_tries_nothing() -> None:
    """`objection` changes nothing, however often it is asked."""
    made = gate()
    made.loaded(Tier.DISK, 1000, 50)
    for _ in range(3 * PROBE_EVERY):
        assert made.objection(Tier.DISK) is not None
    assert [made.admits(Tier.DISK, 2).pages for _ in range(PROBE_EVERY - 1)] == [0] * (
        PROBE_EVERY - 1
    )


def test_the_other_modes() -> None:
    """always does not mind, never does not look; both measure."""
    always, never = gate("always"), gate("never")
    for made in (always, never):
        made.loaded(Tier.DISK, 1000, 50)
        assert made.load_us(Tier.DISK) == pytest.approx(50_000)
    assert always.admits(Tier.DISK, 4) == Verdict(4)
    assert always.patience(100) == math.inf
    assert [never.admits(Tier.HOST, 4) for _ in range(2 * PROBE_EVERY)] == [
        Verdict(0, "the gate is shut")
    ] * (2 * PROBE_EVERY)


def test_how_long_a_load_is_waited_for() -> None:
    """A part of what computing would take, and never less than a thread needs to begin."""
    made = gate(prefill_us=4000)
    assert made.patience(1000) == pytest.approx(PATIENCE * 4)
    assert made.patience(1) == MIN_PATIENCE_S


def test_nothing_is_learnt_from_nothing() -> None:
    """A read of no token leaves the measure as it was."""
    made = gate()
    made.loaded(Tier.DISK, 0, 3.0)
    assert made.load_us(Tier.DISK) is None
