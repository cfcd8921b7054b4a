"""llama.cpp's slots and its host list."""

from __future__ import annotations

import pytest

from radixchat.bench.llamacpp_slots import LlamaCppSlots
from radixchat.tests.bench.traffic import ask, serve_all

ALPHA, BETA, GAMMA = [*range(10, 20)], [*range(30, 40)], [*range(50, 60)]


def test_a_slot_for_each_conversation() -> None:
    """As many conversations as slots: each finds all it had."""
    arm = LlamaCppSlots(80, 2, host_units=0)
    assert serve_all(arm, [ALPHA, BETA, [*ALPHA, 1], [*BETA, 1]]) == [0, 0, 10, 10]


def test_one_conversation_more_than_slots_finds_nothing() -> None:
    """In turn, each takes the slot of the one that comes next."""
    arm = LlamaCppSlots(80, 2, host_units=0)
    assert serve_all(arm, [ALPHA, BETA, GAMMA] * 3) == [0] * 9


def test_the_host_list_saves_them() -> None:
    """The same traffic with a host list: all but the last token comes back."""
    arm = LlamaCppSlots(80, 2, host_units=40)
    assert serve_all(arm, [ALPHA, BETA, GAMMA] * 3) == [0] * 3 + [9] * 6
    assert arm.num_host_units == 10


def test_the_host_list_drops_its_oldest() -> None:
    """A list too small for one more keeps the newest only."""
    arm = LlamaCppSlots(40, 1, host_units=15)
    serve_all(arm, [ALPHA, BETA, GAMMA])
    assert arm.num_host_units == 10
    assert serve_all(arm, [BETA, ALPHA]) == [9, 0]


def test_what_loses_more_than_half_is_saved() -> None:
    """A branch that leaves after 3 of 10 has the rest copied to the list, and it comes back."""
    arm = LlamaCppSlots(40, 1, host_units=100)
    assert serve_all(arm, [ALPHA, [*ALPHA[:3], 1, 2, 3, 4, 5], ALPHA]) == [0, 3, 9]


def test_what_keeps_half_is_not_saved() -> None:
    """A branch that leaves after 6 of 10 cuts the rest off for good."""
    arm = LlamaCppSlots(40, 1, host_units=100)
    assert serve_all(arm, [ALPHA, [*ALPHA[:6], 1, 2, 3, 4, 5], ALPHA]) == [0, 6, 6]
    assert arm.num_host_units == 0


@pytest.mark.parametrize(("common", "found"), [(5, 5), (3, 3), (2, 0)])
def test_an_entry_must_be_worth_it(common: int, found: int) -> None:
    """Of an entry of 10, half or three may come back for a prompt; two are less than a quarter."""
    arm = LlamaCppSlots(40, 1, host_units=100)
    assert serve_all(arm, [ALPHA, BETA, [*ALPHA[:common], 1, 2, 3, 4]]) == [0, 0, found]


def test_an_entry_that_another_contains_is_dropped() -> None:
    """A reply happens to repeat a saved sequence and goes on: the list keeps the longer one."""
    arm = LlamaCppSlots(40, 1, host_units=100)
    serve_all(arm, [ALPHA, BETA])
    assert arm.serve(ask(ALPHA[:1], [*ALPHA[1:], 1, 2])) == 0
    serve_all(arm, [GAMMA])
    assert arm.num_host_units == 10 + 11


def test_a_slot_is_cut_at_the_common_prefix() -> None:
    """After going on from an earlier point, what was beyond is gone."""
    arm = LlamaCppSlots(40, 1, host_units=0)
    serve_all(arm, [ALPHA, [*ALPHA[:6], 1]])
    assert arm.evicted_units == 4
    assert arm.serve(ask(ALPHA)) == 6


def test_a_tenth_in_common_is_too_little() -> None:
    """A prompt takes the slot that was used longest ago, not the one with a tenth of it."""
    arm = LlamaCppSlots(200, 2, host_units=0)
    serve_all(arm, [BETA, ALPHA])
    assert arm.serve(ask([ALPHA[0], *range(100, 109)])) == 0, "1 of 10: in the place of BETA"
    assert serve_all(arm, [ALPHA]) == [9]


def test_more_than_a_tenth_takes_the_slot() -> None:
    """Though another slot was used longer ago; the rest of what it held is gone."""
    arm = LlamaCppSlots(200, 2, host_units=0)
    serve_all(arm, [BETA, ALPHA])
    assert arm.serve(ask([*ALPHA[:2], *range(100, 108)])) == 2
    assert arm.evicted_units == 8
    assert serve_all(arm, [BETA]) == [9]


def test_slots_share_nothing() -> None:
    """A prefix that another slot has is computed again where it is too little of the prompt."""
    arm = LlamaCppSlots(200, 2, host_units=0)
    system = [1, 2]
    assert serve_all(arm, [[*system, *range(100, 140)], [*system, *range(200, 240)]]) == [0, 0]


def test_the_reply_stays_up_to_the_end_of_the_slot() -> None:
    """All of it but the last token; and a prompt beyond the slot's share is refused."""
    arm = LlamaCppSlots(20, 2, host_units=0)
    arm.serve(ask([1, 2, 3], [4, 5, 6]))
    assert arm.serve(ask([1, 2, 3, 4, 5, 6, 7])) == 5
    arm.serve(ask([1, 2, 3, 4, 5, 6, 7], range(100, 120)))
    assert arm.num_cached_units == 10
    assert arm.serve(ask(range(11))) == 0
    assert arm.too_long == 1


def test_no_slots() -> None:
    """It is refused, with the number."""
    with pytest.raises(ValueError, match="num_slots is 0"):
        LlamaCppSlots(20, 0, host_units=0)
