"""The log of a response: any number of readers, from any place, and no queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.server.protocol import (
    CacheReport,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
    ResponseTimings,
    ResponseUsage,
)
from radixchat.server.response_log import ResponseLog, Subscription

CREATED = ResponseCreated("conv_1", "resp_1")
TEXTS = st.lists(st.text(min_size=1, max_size=5), max_size=12)


def ended(log: ResponseLog, status: str = "completed") -> ResponseDone:
    usage, timings = ResponseUsage(1, 0, 0, 1), ResponseTimings(None, None, None)
    sequence = log.end_sequence(status)
    return ResponseDone(
        "conv_1", "resp_1", status, None, log.text, usage, timings, (), (), sequence=sequence
    )


def deltas(events: Sequence[ResponseEvent]) -> list[OutputTextDelta]:
    return [event for event in events if isinstance(event, OutputTextDelta)]


def count(counters: list[int], index: int) -> None:
    counters[index] += 1


def read_all(reader: Subscription) -> list[ResponseEvent]:
    events: list[ResponseEvent] = []
    while taken := reader.take():
        events += taken
    return events


@given(TEXTS, st.data())
def test_every_reader_gets_the_whole_text_however_slow(
    texts: list[str], data: st.DataObject
) -> None:
    """Merged or not, the deltas join to the text, their offsets and numbers without a gap."""
    log = ResponseLog(CREATED)
    reader = log.subscribe()
    events: list[ResponseEvent] = []
    for text in texts:
        log.add_text(text)
        if data.draw(st.booleans()):
            events += reader.take()
    log.end(ended(log))
    events += read_all(reader)
    assert events[0] is CREATED
    assert events[-1] is log.done
    assert reader.ended
    offset, number = 0, 4
    for delta in deltas(events):
        assert (delta.offset, delta.first_sequence) == (offset, number)
        offset, number = offset + len(delta.delta), delta.sequence + 1
    assert "".join(delta.delta for delta in deltas(events)) == "".join(texts)
    assert log.done is not None
    assert log.done.sequence == number
    assert reader.take() == []


@given(TEXTS, st.integers(-1, 20))
def test_a_reader_goes_on_after_what_it_has_seen(texts: list[str], after: int) -> None:
    """From any number on: what comes is exactly what has a higher one."""
    log = ResponseLog(CREATED)
    for text in texts:
        log.add_text(text)
    events = read_all(log.subscribe(after=after))
    assert (CREATED in events) is (after < 1)
    rest = texts[max(0, after - 3) :]
    assert "".join(delta.delta for delta in deltas(events)) == "".join(rest)
    if after >= 4:
        assert all(delta.first_sequence > after for delta in deltas(events))


def test_a_long_text_comes_in_pieces() -> None:
    """One reading returns a bounded delta, and says that there is more by being awake."""

    async def main() -> None:
        log = ResponseLog(CREATED)
        for _ in range(10):
            log.add_text("x" * 30)
        log.end(ended(log))
        reader = log.subscribe()
        sizes = []
        while not reader.ended:
            await asyncio.wait_for(reader.wait(), 1)
            sizes += [len(delta.delta) for delta in deltas(reader.take(100))]
        assert sizes == [90, 90, 90, 30]

    asyncio.run(main())


@pytest.mark.parametrize("after", [4, 10, 99])
def test_a_place_before_an_interruption_becomes_a_snapshot(after: int) -> None:
    """What another process had numbered so is not known any more: the whole text comes instead."""
    log = ResponseLog(CREATED, "what was said", 100)
    log.add_text(" and more")
    (snapshot,) = read_all(log.subscribe(after=after))
    assert snapshot == ResponseSnapshot("resp_1", 101, "what was said and more", "in_progress")
    (delta,) = read_all(log.subscribe(after=100))
    assert isinstance(delta, OutputTextDelta)
    assert (delta.delta, delta.sequence, delta.offset) == (" and more", 101, 13)
    created, whole = read_all(log.subscribe())
    assert created is CREATED
    assert isinstance(whole, OutputTextDelta)
    assert (whole.first_sequence, whole.sequence) == (4, 101)


def test_states_come_once_and_again_to_who_comes_back() -> None:
    """Of each kind the last; they have no place in the log."""
    log = ResponseLog(CREATED)
    reader = log.subscribe()
    reader.take()
    log.show(PrefillProgress("resp_1", 10, 2, 4, 1.0))
    log.show(latest := PrefillProgress("resp_1", 10, 2, 8, 2.0))
    log.show(report := CacheReport("resp_1", 10, 2, ()))
    assert reader.take() == [report, latest]
    assert reader.take() == []
    assert log.subscribe(after=3).take() == [report, latest]


@pytest.mark.parametrize(
    ("texts", "status", "sequence"),
    [
        ([], "completed", 4),
        ([], "failed", 2),
        (["a"], "incomplete", 5),
        (["a", "b"], "completed", 6),
    ],
)
def test_the_number_of_the_end(texts: list[str], status: str, sequence: int) -> None:
    """Text that is there is closed; an empty answer is one; no answer has nothing to close."""
    log = ResponseLog(CREATED)
    for text in texts:
        log.add_text(text)
    assert log.end_sequence(status) == sequence


def test_news_wake_readers_and_the_last_one_to_go_is_noticed() -> None:
    """Each gets its own call; a closed one gets none, and closing twice counts once."""
    log, woken, left = ResponseLog(CREATED), [0, 0], []
    readers = [log.subscribe(partial(count, woken, index)) for index in (0, 1)]
    log.on_left = lambda: left.append(len(log._readers))
    log.add_text("a")
    readers[0].close()
    readers[0].close()
    log.add_text("b")
    assert woken == [1, 2]
    assert left == []
    readers[1].close()
    assert left == [0]
