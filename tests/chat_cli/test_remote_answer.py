"""One answer out of what comes twice, merged, late, or not at all."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.inbox import Inbox
from radixchat.chat_cli.remote_answer import Gap, RemoteAnswer
from radixchat.server.event_reader import ProtocolError
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseTimings,
    ResponseUsage,
    ServerUnreachable,
)

from radixchat.server.encode import Encoder  # isort: skip

TEXT = "several words, and one more: žluťoučký 🐎"
CREATED = ResponseCreated("conv_1", "resp_1")
END = ResponseDone(
    "conv_1", "resp_1", "completed", None, TEXT, ResponseUsage(9, 0, 9, 9),
    ResponseTimings(1.0, 1.0, 1.0), (), (), seed=1, sequence=4 + len(TEXT),
)  # fmt: skip


def wire(*cuts: int, after: int = -1) -> list[dict[str, Any]]:
    """The events of the answer, its text cut into deltas at these places, each a token a delta."""
    encoder = Encoder(None, True, "m", after=after)
    events = encoder.events(CREATED)
    for start, end in pairwise((0, *cuts, len(TEXT))):
        events += encoder.events(
            OutputTextDelta("resp_1", TEXT[start:end], 3 + end, 4 + start, start)
        )
    return events + encoder.events(END)


def take(answer: RemoteAnswer, events: list[dict[str, Any]]) -> list[ResponseEvent]:
    return [value for event in events for value in answer.take(event)]


def text_of(values: list[ResponseEvent]) -> str:
    return "".join(value.delta for value in values if isinstance(value, OutputTextDelta))


def test_whatever_comes_twice_is_handed_on_once() -> None:
    """Cut anywhere, read on from there or from the start, merged otherwise: the same answer."""
    dice = random.Random(5)
    for _ in range(300):
        answer, values = RemoteAnswer(), list[ResponseEvent]()
        while not answer.ended:
            after = answer.place
            if dice.random() < 0.3:
                answer.read_again()
                after = -1
            cuts = sorted(dice.sample(range(1, len(TEXT)), dice.randint(0, 12)))
            events = wire(*cuts, after=after)
            values += take(answer, events[: dice.randint(0, len(events))])
        assert text_of(values) == TEXT
        assert [type(v) for v in values].count(ResponseCreated) == 1
        assert values[-1] == END


def test_what_is_missing_is_a_gap() -> None:
    """A number that is left out, and an offset behind the text."""
    events = wire(3, 7, 9)
    answer = RemoteAnswer()
    take(answer, events[:5])
    with pytest.raises(Gap):
        take(answer, events[6:7])
    answer = RemoteAnswer()
    take(answer, events[:5])
    answer.place += 4  # a server that counts otherwise
    with pytest.raises(Gap):
        take(answer, events[6:7])
    assert not answer.ended


def test_an_end_with_more_text_than_came_is_a_gap() -> None:
    """The terminal event has the whole text, and counts only after it."""
    answer = RemoteAnswer()
    take(answer, wire()[:4])
    answer.place = wire()[-1]["sequence_number"] - 1
    with pytest.raises(Gap):
        take(answer, wire()[-1:])


def test_a_snapshot_brings_the_rest() -> None:
    """What it has beyond the text that is known."""
    answer = RemoteAnswer()
    values = take(answer, wire(5)[:5])
    snapshot = {
        "type": "response.snapshot",
        "response_id": "resp_1",
        "sequence_number": 50,
        "output_text": TEXT,
        "status": "completed",
    }
    values += take(answer, [snapshot])
    assert text_of(values) == TEXT
    assert answer.place == 50


def deltas(text: str, *cuts: int) -> list[dict[str, Any]]:
    """The events of a text that is cut there, up to its last delta."""
    encoder = Encoder(None, True, "m")
    events = encoder.events(CREATED)
    for start, end in pairwise((0, *cuts, len(text))):
        events += encoder.events(
            OutputTextDelta("resp_1", text[start:end], 4 + end, 4 + start, start)
        )
    return events


def ending(text: str, status: str, reason: str | None) -> list[dict[str, Any]]:
    done = replace(END, output_text=text, status=status, reason=reason, sequence=5 + len(text))
    encoder = Encoder(None, True, "m", after=4 + len(text))
    encoder.events(CREATED)
    return encoder.events(done)


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ("a caf\ufffd", "a café au lait"),
        ("so far. #", "so far. "),
        ("so far. ##\ufffd", "so far. "),
    ],
)
def test_what_a_server_that_leaves_takes_back(cut: str, whole: str) -> None:
    """Half of a character, or of a stop text, is handed on only where the answer keeps it."""
    first, second = ending(cut, "incomplete", "server_shutdown"), ending(whole, "completed", None)
    answer = RemoteAnswer(("###",))
    values = take(answer, deltas(cut, 3) + first)
    assert whole.startswith(text_of(values))
    assert not answer.ended
    assert answer.partial is not None
    answer.read_again()
    values += take(answer, deltas(whole) + second)
    assert text_of(values) == whole
    end = values[-1]
    assert isinstance(end, ResponseDone)
    assert end.output_text == whole

    for gives_up in (True, False):
        answer = RemoteAnswer(("###",))
        answer.goes_on = gives_up
        values = take(answer, deltas(cut, 3) + first)
        if gives_up:
            values += answer.cut_short(ServerUnreachable("gone"), "interrupted")
        done = values[-1]
        assert isinstance(done, ResponseDone)
        assert text_of(values) == done.output_text == cut
        assert (done.error is not None) == gives_up


def test_what_may_be_taken_back_waits_for_one_more_delta() -> None:
    """It is handed on with what follows; nothing but the beginning of a stop text waits."""
    answer = RemoteAnswer(("\n\nUser:", "END"))
    handed = [
        text_of(take(answer, [event]))
        for event in deltas("one\n\nUsually \ufffd EN", 4, 5, 9, 13, 14)
    ]
    assert [text for text in handed if text] == ["one", "\n\nUsua", "lly ", "\ufffd "]


@pytest.mark.parametrize("kind", ["delta", "snapshot", "end"])
def test_another_text_is_refused(kind: str) -> None:
    """A server that contradicts what it sent is not believed."""
    answer = RemoteAnswer()
    take(answer, wire(5)[:5])
    events = wire()
    if kind == "delta":
        answer.read_again()
        events[4]["delta"] = "x" + TEXT[1:]
    elif kind == "snapshot":
        snapshot = {"response_id": "resp_1", "sequence_number": 50, "status": "completed"}
        events = [{"type": "response.snapshot", "output_text": "other", **snapshot}]
    else:
        events = events[-1:]
        answer.place = events[0]["sequence_number"] - 1
        events[0]["response"]["output"][0]["content"][0]["text"] = "other"
    with pytest.raises(ProtocolError, match="another text"):
        take(answer, events)


async def _drained(inbox: Inbox) -> list[Any]:
    taken = []
    try:
        while True:
            taken.append(await inbox.get())
    except ConnectionLost:
        return taken


def test_deltas_that_wait_are_one() -> None:
    """A slow taker gets the same text in fewer events, then hears that the connection is lost."""
    inbox = Inbox()
    for event in wire(*range(1, len(TEXT))):
        inbox.put(event)
    inbox.lose(ConnectionLost(ServerUnreachable("gone")))
    events = asyncio.run(_drained(inbox))
    assert [e["type"].split(".")[-1] for e in events].count("delta") == 1
    assert text_of(take(RemoteAnswer(), events)) == TEXT
