"""Tests of what is known of conversations: habits, idle time, shields, and bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from radixchat.radix.conversation_table import (
    MAX_CONVERSATIONS,
    SHIELD_SECONDS,
    Conversation,
    ConversationTable,
    Habit,
)
from radixchat.radix.return_rate import EDGES, ReturnRates, idle_bin
from radixchat.radix.use import Signal, Use
from radixchat.tests.radix.leaves import make_leaf

STARTED, FINISHED, QUEUED = Signal.STARTED, Signal.FINISHED, Signal.QUEUED
CONNECTED, AWAY, DISCONNECTED = Signal.CONNECTED, Signal.AWAY, Signal.DISCONNECTED
TYPING, CLOSED = Signal.TYPING, Signal.CLOSED


class _Listener:
    """A table, its rates, and what has been counted so far."""

    def __init__(self, max_conversations: int = MAX_CONVERSATIONS) -> None:
        self.rates = ReturnRates([1.0] * len(Habit), half_life=1e12)
        self.table = ConversationTable(self.rates, max_conversations)

    def hear(self, *signals: tuple[float, Signal], name: str = "a") -> Conversation:
        """Hear signals at times; the conversation after the last."""
        heard = None
        for now, signal in signals:
            list(self.table.ended_shields(now))
            heard = self.table.hear(name, signal, now)
        assert heard is not None
        return heard

    def returns(self) -> list[tuple[Habit, int]]:
        """The habit and the idle bin of each return."""
        counts = self.rates._returns
        return [
            (Habit(habit), int(number))
            for habit, number in zip(*np.nonzero(counts), strict=True)
            for _ in range(int(counts[habit, number]))
        ]

    def exposure(self, now: float) -> dict[Habit, float]:
        """Seconds spent idle in each habit."""
        list(self.table.ended_shields(now))
        self.rates.rebuild(now)
        seconds = self.rates._exposure.sum(1).round(6)
        return {habit: float(seconds[habit]) for habit in Habit if seconds[habit]}


def test_a_turn_after_another_is_a_return() -> None:
    """The time from the end of one request to the start of the next, in the habit at its end."""
    listener = _Listener()
    listener.hear((0, STARTED), (10, FINISHED), (40, STARTED), (45, FINISHED), (145, STARTED))
    assert listener.returns() == [
        (Habit.CONNECTED_FIRST, idle_bin(30)),
        (Habit.CONNECTED_LATER, idle_bin(100)),
    ]
    assert listener.exposure(500.0) == {Habit.CONNECTED_FIRST: 30, Habit.CONNECTED_LATER: 100}


def test_idle_time_belongs_to_the_habit_it_is_spent_in() -> None:
    """Hiding, leaving and closing begin a new habit, at the idle time that has come by then."""
    listener = _Listener()
    said = (0, STARTED), (0, FINISHED), (5, AWAY), (50, DISCONNECTED), (300, CLOSED)
    conversation = listener.hear(*said)
    assert conversation.habit is Habit.CLOSED
    assert listener.exposure(1000.0) == {
        Habit.CONNECTED_FIRST: 5,
        Habit.AWAY_FIRST: 45,
        Habit.DISCONNECTED_FIRST: 250,
        Habit.CLOSED: 700,
    }
    closed = listener.rates._exposure[Habit.CLOSED]
    assert closed[: idle_bin(300)].sum() == 0, "it was idle for 300 s when it was closed"
    assert listener.returns() == []


def test_a_closed_conversation_is_opened_by_a_request() -> None:
    """A request is a return of a closed one, and ends its being closed, away or disconnected."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (1, FINISHED), (2, DISCONNECTED), (3, CLOSED))
    conversation.leaves[make_leaf(Use(1, 1.0, "a", 4))] = None  # else it is dropped
    assert listener.hear((103, STARTED)) is conversation
    assert listener.returns() == [(Habit.CLOSED, idle_bin(102))]
    assert conversation.habit is Habit.CONNECTED_FIRST
    assert listener.hear((110, FINISHED)).habit is Habit.CONNECTED_LATER


def test_closed_while_it_runs() -> None:
    """Said during a request, it holds from its end on."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (5, CLOSED), (9, FINISHED))
    assert conversation.habit is Habit.CLOSED
    assert listener.exposure(20.0) == {Habit.CLOSED: 11}


def test_requests_at_once() -> None:
    """It is idle when the last of several requests has ended, and returns only from that."""
    listener = _Listener()
    listener.hear((0, STARTED), (1, STARTED), (5, FINISHED), (6, STARTED), (7, FINISHED))
    assert listener.exposure(8.0) == {}
    listener.hear((10, FINISHED), (30, STARTED))
    assert listener.returns() == [(Habit.CONNECTED_LATER, idle_bin(20))]


@pytest.mark.parametrize(
    "signals",
    [
        [(100.0, TYPING)],
        [(100.0, QUEUED)],
        [(50.0, DISCONNECTED), (100.0, CONNECTED)],
        [(50.0, AWAY), (100.0, CONNECTED)],
    ],
)
def test_who_is_about_to_ask_is_shielded(signals: list[tuple[float, Signal]]) -> None:
    """Typing, waiting in the queue, back again: for two minutes, not longer."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (0, FINISHED), *signals)
    assert conversation.shielded
    assert list(listener.table.ended_shields(100.0 + SHIELD_SECONDS - 0.1)) == []
    assert list(listener.table.ended_shields(100.0 + SHIELD_SECONDS)) == [conversation]
    assert not conversation.shielded
    assert list(listener.table.ended_shields(1e9)) == []


def test_connected_without_having_left_is_no_news() -> None:
    """It shields nothing, as do other signals that do not say that somebody is coming."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (0, FINISHED), (1, CONNECTED))
    assert not conversation.shielded
    assert not listener.hear((2, AWAY)).shielded
    assert not listener.hear((3, DISCONNECTED)).shielded


def test_a_return_under_a_shield_counts_where_the_shield_began() -> None:
    """What had to be foreseen is the moment before, so the shielded time is no exposure."""
    listener = _Listener()
    listener.hear(
        (0, STARTED), (0, FINISHED), (10, AWAY), (200, CONNECTED), (230, TYPING), (290, STARTED)
    )
    assert listener.returns() == [(Habit.AWAY_FIRST, idle_bin(200))]
    assert listener.exposure(300.0) == {Habit.CONNECTED_FIRST: 10, Habit.AWAY_FIRST: 190}


def test_a_shield_that_ends_with_nothing() -> None:
    """Exposure goes on when it ends, in the habit of then; the shielded time counts for nothing."""
    listener = _Listener()
    listener.hear((0, STARTED), (0, FINISHED), (10, AWAY), (200, CONNECTED))
    assert listener.exposure(420.0) == {
        Habit.CONNECTED_FIRST: 10,
        Habit.AWAY_FIRST: 190,
        Habit.BACK_FIRST: 100,
    }
    listener.hear((425, CONNECTED), (430, STARTED))
    assert listener.returns() == [(Habit.BACK_FIRST, idle_bin(430))]


def test_typing_during_an_answer() -> None:
    """The shield outlasts the request, and the next one is a return at once."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (50, TYPING), (60, FINISHED))
    assert conversation.shielded
    assert not listener.hear((100, STARTED)).shielded
    assert listener.returns() == [(Habit.CONNECTED_FIRST, 0)]
    assert listener.exposure(200.0) == {}


def test_a_surer_reason_shields_anew() -> None:
    """Back, typing, queued: two minutes each; the same or a weaker reason adds nothing."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (0, FINISHED), (5, AWAY), (10, CONNECTED))
    assert conversation.shield_end == 130
    assert listener.hear((100, TYPING)).shield_end == 220
    assert listener.hear((110, TYPING), (120, AWAY), (130, CONNECTED)).shield_end == 220
    assert listener.hear((200, QUEUED)).shield_end == 320
    assert listener.hear((250, QUEUED), (260, TYPING)).shield_end == 320
    assert list(listener.table.ended_shields(320.0)) == [conversation]
    assert not conversation.shielded
    listener.hear((321, STARTED))
    assert listener.returns() == [(Habit.BACK_FIRST, idle_bin(321))]


def test_typing_for_ever_shields_half_of_the_time() -> None:
    """After a shield that came to nothing there is none for as long, until a request begins."""
    listener, shielded = _Listener(), 0
    conversation = listener.hear((0, STARTED), (0, FINISHED))
    for second in range(1, 2401):
        shielded += listener.hear((second, TYPING)).shielded
    assert shielded == pytest.approx(1200, abs=20)
    assert len(listener.table._shields) <= 2
    assert not conversation.shielded
    listener.hear((2401, TYPING), (2550, STARTED), (2551, FINISHED))
    assert listener.hear((2552, TYPING)).shielded
    assert conversation.turns == 2


def test_the_end_of_a_request_whose_begin_is_forgotten() -> None:
    """The idle time begins anew: no second is counted at the idle time before."""
    listener = _Listener()
    listener.hear((0, FINISHED), (100, FINISHED), (130, STARTED))
    assert listener.returns() == [(Habit.CONNECTED_LATER, idle_bin(30))]
    assert listener.exposure(200.0) == {Habit.CONNECTED_FIRST: 100, Habit.CONNECTED_LATER: 30}
    assert listener.rates._exposure[:, idle_bin(100) + 1 :].sum() == 0


def test_closing_ends_a_shield() -> None:
    """Who closes is not about to ask."""
    listener = _Listener()
    conversation = listener.hear((0, STARTED), (0, FINISHED), (5, TYPING), (6, CLOSED))
    assert not conversation.shielded
    assert listener.exposure(10.0) == {Habit.CONNECTED_FIRST: 5, Habit.CLOSED: 4}


def test_only_requests_make_a_conversation_known() -> None:
    """A client that names conversations which never asked anything leaves no trace."""
    listener = _Listener()
    for signal in Signal:
        if signal not in (STARTED, FINISHED):
            assert listener.table.hear("b", signal, 1.0) is None
    assert len(listener.table) == 0
    assert listener.hear((2, FINISHED)).turns == 1, "forgotten while it ran"


def test_what_is_over_is_dropped() -> None:
    """Closed or idle for more than a day, no leaf, no request: gone when the hand comes by."""
    listener, day = _Listener(), EDGES[-1]
    for number in range(100):
        listener.hear((0, STARTED), (0, FINISHED), name=f"old {number}")
    closed = [f"closed {number}" for number in range(100)]
    for name in closed:
        listener.hear((1, STARTED), (1, FINISHED), (1, CLOSED), name=name)
    leaf = make_leaf(Use(1, 1.0, "cached", 4))
    listener.hear((1, STARTED), (1, FINISHED), (1, CLOSED), name="cached").leaves[leaf] = None
    listener.hear((2, STARTED), name="running")
    listener.hear(*[(3.0, STARTED), (3.0, FINISHED)] * 100, name="other")
    assert all(listener.table.get(name) is None for name in closed)
    assert len(listener.table) == 100 + 3
    listener.hear(*[(2 * day, STARTED), (2 * day, FINISHED)] * 100, name="other")
    assert len(listener.table) == 3
    assert all(map(listener.table.get, ("cached", "running", "other")))
    assert len(listener.table._hand) == 3


def test_the_table_has_a_limit() -> None:
    """Beyond it the conversation that asked least recently is forgotten, with all it held."""
    listener = _Listener(max_conversations=50)
    forgotten: list[str] = []
    for number in range(5000):
        now = float(number)
        listener.hear((now, STARTED), (now, FINISHED), (now, TYPING), name=f"{number}")
        listener.hear((now, STARTED), (now, FINISHED), name="regular")
        forgotten += [each.name for each in listener.table.forgotten(now)]
        assert len(listener.table) <= 50
    assert forgotten == [f"{number}" for number in range(5000 - 49)]
    assert len(listener.table._hand) <= 150
    assert len(listener.table._shields) <= SHIELD_SECONDS + 1
    assert len(listener.rates._class) <= 100


def test_a_limit_of_none_is_refused() -> None:
    """The message has the value."""
    with pytest.raises(ValueError, match="max_conversations is 0"):
        ConversationTable(ReturnRates([1.0] * len(Habit)), 0)
