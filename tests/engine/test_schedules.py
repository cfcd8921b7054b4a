"""Random schedules: whatever happens, each request ends once, as its solo run, and nothing is left.

A failure prints its seed and the smallest schedule that fails; `ScheduleRun(Schedule(...), solos)`
repeats it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from radixchat.engine.request import FinishReason
from radixchat.engine.tiers import open_tiers, page_reader, tiers
from radixchat.tests.engine.schedule import (
    Ask,
    Below,
    Schedule,
    Settings,
    make_schedule,
    make_soak,
    with_tiers,
)
from radixchat.tests.engine.schedule_fuzz import ScheduleRun, play
from radixchat.tests.engine.schedule_shrinking import shrink
from radixchat.tests.engine.solo_answers import SoloAnswers

FAST, ALL, PARTS = 32, 5_000, 10
ALL_TIERED = 800

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


TIERED = {"host", "disk"}


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedules' prompts are shorter than what is worth a read, and their memory is smaller."""
    for module in (page_reader, tiers):
        monkeypatch.setattr(module, "MIN_USEFUL_TOKENS", 4)
    monkeypatch.setattr(open_tiers, "MAX_STAGING_BYTES", 1)


def test_some_schedules_with_tiers(solos: SoloAnswers, short_pieces: None) -> None:
    """The same promises with host memory and a store on which nobody can rely."""
    seen: Counter[str] = Counter()
    for seed in range(FAST):
        seen += play(seed, solos, with_tiers)
    assert [what for what in TIERED if not seen[what]] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_schedules_with_tiers(solos: SoloAnswers, short_pieces: None, part: int) -> None:
    """800 of them."""
    seen: Counter[str] = Counter()
    for seed in range(part, ALL_TIERED, PARTS):
        seen += play(seed, solos, with_tiers)
    assert seen["runs"] == ALL_TIERED // PARTS
    assert [what for what in (*MET, *TIERED) if not seen[what]] == []


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
    names = {"Schedule": Schedule, "Settings": Settings, "Ask": Ask, "Below": Below}
    for seed, make in product(range(50), (make_schedule, with_tiers)):
        schedule = make(seed)
        assert schedule == make(seed)
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
