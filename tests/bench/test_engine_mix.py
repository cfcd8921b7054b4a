"""`EngineMix`: what it plans is what it says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from radixchat.bench.engine_mix import QUICK, EngineMix
from radixchat.tests.tiny_model import CONTEXT

VOCABULARY = 264


@pytest.mark.parametrize("mix", [EngineMix(), QUICK], ids=["full", "quick"])
def test_a_plan_is_what_the_mix_says(mix: EngineMix) -> None:
    """Lengths, numbers of turns and system prompts are within bounds, times ascend."""
    plan = mix.plan(1, VOCABULARY)
    assert len(plan) == mix.conversations
    assert len({each.system for each in plan}) == mix.systems
    starts = [each.turns[0].time for each in plan]
    assert starts[0] == 0
    assert starts == sorted(starts)
    for each in plan:
        assert len(each.system) == mix.system_tokens
        assert 1 <= len(each.turns) <= mix.turns
        assert all(before.time < after.time for before, after in pairwise(each.turns))
        sizes = [mix.system_tokens, *(len(t.message) + t.answer for t in each.turns)]
        assert sum(sizes) <= mix.longest
        for turn in each.turns:
            is_long = len(turn.message) >= mix.long[0]
            low, high = mix.long if is_long else mix.short
            assert low <= len(turn.message) <= high
            assert mix.answer[0] <= turn.answer <= mix.answer[1]
            assert all(0 <= token < VOCABULARY for token in turn.message)


def test_the_same_seed_plans_the_same_traffic() -> None:
    """Another one plans another."""
    mix = EngineMix(conversations=4)
    assert mix.plan(3, VOCABULARY) == mix.plan(3, VOCABULARY)
    assert mix.plan(3, VOCABULARY) != mix.plan(4, VOCABULARY)


def test_how_often_and_how_long() -> None:
    """Over many conversations the rate and the share of long messages are those stated."""
    mix = EngineMix(conversations=2000, rate=2.0, system_tokens=1, short=(1, 2), long=(3, 4))
    plan = mix.plan(5, VOCABULARY)
    assert mix.conversations / plan[-1].turns[0].time == pytest.approx(mix.rate, rel=0.1)
    messages = [turn.message for each in plan for turn in each.turns]
    long = sum(len(message) >= 3 for message in messages) / len(messages)
    assert long == pytest.approx(mix.long_share, abs=0.03)
    gaps = [b.time - a.time for each in plan for a, b in pairwise(each.turns)]
    assert sum(gaps) / len(gaps) == pytest.approx(mix.think, rel=0.1)


def test_the_quick_mix_fits_a_small_context() -> None:
    """Its longest conversation and a token more."""
    assert QUICK.longest < CONTEXT


def test_it_says_what_it_is() -> None:
    """In one line, with its numbers."""
    assert str(EngineMix()).startswith("20 conversations of 1 to 4 turns, 1 begin a second; 4 ")
