"""A plan driven through an engine: times, tokens and answers of every turn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from radixchat.bench.engine_mix import QUICK, PlannedConversation, PlannedTurn
from radixchat.bench.engine_run import ArmRun, drive
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import make_engine


@pytest.fixture(scope="module")
def run(tiny: Checkpoint) -> ArmRun:
    """The quick mix in a pool that is too small for all of it."""
    plan = QUICK.plan(2, tiny.config.vocab_size)
    return drive(make_engine(tiny, pool_tokens=512, max_running=8), plan)


def test_every_planned_turn_is_answered(run: ArmRun, tiny: Checkpoint) -> None:
    """Once, with the whole history as its prompt and as many tokens as planned."""
    plan = {each.name: each for each in QUICK.plan(2, tiny.config.vocab_size)}
    assert Counter(t.conversation for t in run.turns) == {
        name: len(each.turns) for name, each in plan.items()
    }
    histories = {name: list(each.system) for name, each in plan.items()}
    for turn in sorted(run.turns, key=lambda each: each.turn):
        planned = plan[turn.conversation].turns[turn.turn - 1]
        histories[turn.conversation] += planned.message
        assert turn.prompt.tolist() == histories[turn.conversation]
        assert len(turn.output) == planned.answer
        histories[turn.conversation] += turn.output


def test_times_are_in_order(run: ArmRun, tiny: Checkpoint) -> None:
    """Nothing begins early; a late turn follows its predecessor; waiting is part of the first."""
    plan = {each.name: each for each in QUICK.plan(2, tiny.config.vocab_size)}
    ends: dict[tuple[str, int], float] = {}
    for turn in run.turns:
        planned = plan[turn.conversation].turns[turn.turn - 1].time
        assert turn.late == (turn.arrival > planned)
        assert turn.arrival >= ends.get((turn.conversation, turn.turn - 1), 0.0)
        assert 0 <= turn.queue <= turn.ttft <= turn.lasted
        assert len(turn.gaps) == len(turn.output) - 1
        assert turn.ttft + sum(turn.gaps) == pytest.approx(turn.lasted)
        ends[turn.conversation, turn.turn] = turn.arrival + turn.lasted
    assert max(ends.values()) <= run.lasted
    assert [turn.arrival for turn in run.turns] == sorted(turn.arrival for turn in run.turns)


def test_the_counters_are_those_of_the_run(run: ArmRun) -> None:
    """The warm-up is not in them; tokens add up."""
    counters = run.counters
    assert counters.requests == len(run.turns)
    assert counters.prompt_tokens == sum(len(turn.prompt) for turn in run.turns)
    assert counters.cached_tokens == sum(turn.cached_tokens for turn in run.turns) > 0
    fresh = counters.prompt_tokens - counters.cached_tokens
    decoded = sum(len(turn.output) - 1 for turn in run.turns)
    assert counters.computed_tokens >= fresh + decoded
    assert 0 < counters.schedule_seconds < counters.step_seconds <= run.busy <= run.lasted


def test_time_without_work_is_skipped(tiny: Checkpoint) -> None:
    """An hour between two messages lasts an hour on its clock, and no time at all."""
    turns = tuple(PlannedTurn(time, (1, 2, 3), 2) for time in (0.0, 3600.0))
    run = drive(make_engine(tiny), [PlannedConversation("a", (7,) * 20, turns)])
    assert run.lasted > 3600
    assert run.busy < 60
    assert [turn.arrival for turn in run.turns] == [0.0, 3600.0]
    assert run.turns[1].cached_tokens == len(run.turns[0].prompt) + 1
    assert run.turns[1].ttft < 60


def test_what_follows_an_answer_contains_it(tiny: Checkpoint) -> None:
    """A turn that was planned too early is sent when the answer before is complete, and is late."""
    turns = tuple(PlannedTurn(time, (1, 2, 3), 4) for time in (0.0, 1e-9))
    first, second = drive(make_engine(tiny), [PlannedConversation("a", (7,), turns)]).turns
    assert (first.late, second.late) == (False, True)
    assert second.arrival == pytest.approx(first.arrival + first.lasted)
    assert np.array_equal(second.prompt, [*first.prompt, *first.output, 1, 2, 3])
