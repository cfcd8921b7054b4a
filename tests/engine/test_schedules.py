"""Random schedules: whatever happens, each request ends once, as its solo run, and nothing is left.

A failure prints its seed and the smallest schedule that fails; `ScheduleRun(Schedule(...), solos)`
repeats it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from radixchat.engine.request import FinishReason
from radixchat.tests.engine.schedule import Ask, Schedule, Settings, make_schedule, make_soak
from radixchat.tests.engine.schedule_fuzz import ScheduleRun, play
from radixchat.tests.engine.schedule_shrinking import shrink
from radixchat.tests.engine.solo_answers import SoloAnswers

FAST, ALL, PARTS = 32, 5_000, 10

# What a run of many schedules must have met, for its silence to mean anything.
MET = (
    *(FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTEXT),
    *(FinishReason.CANCELLED, FinishReason.DEADLINE),
    *("too long", "overloaded", "preempted", "drafted", "accepted", "cached", "overtaken"),
)


def test_some_schedules(solos: SoloAnswers) -> None:
    """The first of them, in the fast suite; everything that can happen happens."""
    seen: Counter[str] = Counter()
    for seed in range(FAST):
        seen += play(seed, solos)
    assert [what for what in MET if not seen[what]] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_schedules(solos: SoloAnswers, part: int) -> None:
    """5,000 of them."""
    seen: Counter[str] = Counter()
    for seed in range(part, ALL, PARTS):
        seen += play(seed, solos)
    assert seen["runs"] == ALL // PARTS
    assert [what for what in MET if not seen[what]] == []


@pytest.mark.slow
def test_soak(solos: SoloAnswers) -> None:
    """Two thousand requests in one engine leave as much behind as one: nothing.

    Of 2,400 asks, of one to four each, those that found no room to wait are none of them.
    """
    run = ScheduleRun(make_soak(1, 2_400), solos)
    seen = run.run()
    assert run.engine.scheduler.stats.requests >= 2_000
    rare = {FinishReason.CONTEXT, "too long"}  # the pool is larger than any of the requests
    assert [what for what in MET if not seen[what] and what not in rare] == []


def test_schedule_is_a_value() -> None:
    """The same seed gives the same one, and what it prints is the Python that makes it."""
    names = {"Schedule": Schedule, "Settings": Settings, "Ask": Ask}
    for seed in range(50):
        schedule = make_schedule(seed)
        assert schedule == make_schedule(seed)
        assert eval(repr(schedule), names) == schedule


def test_shrinking_keeps_what_fails() -> None:
    """Of many asks and settings only those are left that the failure needs."""

    def fails(schedule: Schedule) -> bool:
        tiny_pages = schedule.settings.page_size == 1
        return tiny_pages and any(
            ask.num_samples > 1 and ask.max_tokens > 2 for ask in schedule.asks
        )

    schedule = next(s for s in map(make_schedule, range(1000)) if fails(s) and len(s.asks) > 5)
    (ask,) = (smallest := shrink(schedule, fails)).asks
    assert smallest.settings == Settings(page_size=1)
    assert (ask.num_samples, ask.max_tokens) in {(n, m) for n in (2, 3) for m in (3, 4, 5)}
    assert replace(ask, num_samples=1, max_tokens=Ask().max_tokens) == Ask()
