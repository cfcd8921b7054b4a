"""What a response shows, stores and tells of its text: the same, whatever ends it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.request import Request, Usage
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.thread import EngineThread
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server import response as response_module
from radixchat.server.answer_record import AnswerRecord
from radixchat.server.local import LoadedModel, LocalSettings, load_model
from radixchat.server.message import Answer
from radixchat.server.protocol import OutputTextDelta, ResponseCreated, ResponseDone
from radixchat.server.response import Explanations, LiveResponse
from radixchat.server.response_log import ResponseLog

PROMPT = [1, 2, 3]
GREEDY = SamplingParams(temperature=0, max_tokens=60)


@dataclass(slots=True)
class Sink:
    """Keeps what a store would be told."""

    partials: list[Answer] = field(default_factory=list)
    final: Answer | None = None

    async def save_partial(self, response: str, answer: Answer, sequence: int) -> None:
        self.partials.append(answer)

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        self.final = answer


@dataclass(frozen=True, slots=True)
class Shown:
    """One response as its client and its store saw it."""

    deltas: list[str]
    done: ResponseDone
    sink: Sink

    @property
    def stored(self) -> Answer:
        assert self.sink.final is not None
        return self.sink.final


@pytest.fixture(scope="module")
def model(tiny_directory: Path) -> LoadedModel:
    """The tiny model, loaded once."""
    return load_model(LocalSettings(str(tiny_directory), threads=1))


@pytest.fixture(scope="module")
def solo(model: LoadedModel) -> Shown:
    """The greedy answer without anything that ends it early."""
    return show(model, GREEDY)


def show(
    model: LoadedModel,
    sampling: SamplingParams,
    *stop: str,
    deadline: float | None = None,
    cancel_after: int | None = None,
) -> Shown:
    """Run one response to its end; cancel_after: so many deltas."""

    async def main() -> Shown:
        engine = EngineThread(model.engine)
        engine.start()
        sink, deltas = Sink(), []
        text = AnswerText(model.tokenizer.stream(), stop, sampling.min_tokens)
        request = Request(0, list(PROMPT), sampling, text=text, deadline=deadline)
        plan = model.engine.plan
        response = LiveResponse(
            log=ResponseLog(ResponseCreated("conv_1", "resp_1")),
            request=request,
            record=AnswerRecord(request, model.tokenizer, time.monotonic(), plan.max_tokens),
            engine=engine,
            sink=sink,
            explanations=Explanations(nothing_missed),
        )
        try:
            async for event in response.events():
                if isinstance(event, OutputTextDelta):
                    deltas.append(event.delta)
                    if len(deltas) == cancel_after:
                        response.cancel()
        finally:
            await engine.stop()
        assert isinstance(event, ResponseDone)
        return Shown(deltas, event, sink)

    return check(model.tokenizer, asyncio.run(asyncio.wait_for(main(), 300)))


def check(tokenizer: Tokenizer, shown: Shown) -> Shown:
    """Shown, told and stored are one text, and the stored ids are that text's."""
    assert all(shown.deltas)
    assert "".join(shown.deltas) == shown.done.output_text == shown.stored.text
    for answer in (*shown.sink.partials, shown.stored):
        assert tokenizer.decode(answer.token_ids) == answer.text
        assert shown.done.output_text.startswith(answer.text)
    room = shown.done.n_ctx
    assert room is not None
    assert shown.done.tokens_left == room - len(PROMPT) - len(shown.stored.token_ids)
    return shown


async def nothing_missed(usage: Usage) -> None:
    """No explanation of a miss."""


def test_a_stop_string_ends_the_answer_before_it(model: LoadedModel, solo: Shown) -> None:
    """At every place of the answer, of one to five characters: completed, and which one it was."""
    whole = solo.done.output_text
    for begin, length in ((0, 1), (1, 3), (7, 5), (12, 2)):
        stop = whole[begin : begin + length]
        shown = show(model, GREEDY, "never said", stop)
        assert shown.done.output_text == whole[: whole.index(stop)]
        assert (shown.done.status, shown.done.reason) == ("completed", None)
        assert shown.done.stop == stop
        sampled = shown.done.output_ids
        assert sampled == solo.done.output_ids[: len(sampled)]
        assert shown.stored.token_ids == sampled[: len(shown.stored.token_ids)]
        assert model.tokenizer.decode(sampled).endswith(stop), "it ends with the token that said it"
        assert shown.done.usage.output_tokens == len(sampled)


def test_no_stop_string_is_looked_for_in_the_first_tokens(model: LoadedModel, solo: Shown) -> None:
    """min_tokens reach past the first place of the text that would end the answer."""
    whole = solo.done.output_text
    searched_from = len(model.tokenizer.decode(solo.done.output_ids[:8]))
    stop = whole[searched_from]
    shown = show(model, replace(GREEDY, min_tokens=8), whole[:1], stop)
    assert shown.done.output_text == whole[:searched_from]


@pytest.mark.parametrize("limit", range(1, 24))
def test_a_limit_within_a_character_is_no_error(
    model: LoadedModel, solo: Shown, limit: int
) -> None:
    """max_output_tokens at every place: the text of these ids, all of them stored."""
    shown = show(model, replace(GREEDY, max_tokens=limit))
    assert (shown.done.status, shown.done.reason) == ("incomplete", "max_output_tokens")
    assert shown.done.output_ids == solo.done.output_ids[:limit]
    assert shown.stored.token_ids == shown.done.output_ids
    assert shown.done.output_text == model.tokenizer.decode(shown.done.output_ids)


def test_a_limit_within_a_stop_string_shows_its_beginning(model: LoadedModel, solo: Shown) -> None:
    """What was held back is said at the end, with the last event."""
    whole = model.tokenizer.decode(solo.done.output_ids[:10])
    shown = show(model, replace(GREEDY, max_tokens=10), whole[-3:] + "never said")
    assert (shown.done.output_text, shown.done.stop) == (whole, None)


def test_a_deadline_ends_the_answer_as_it_is(model: LoadedModel) -> None:
    """Past already: nothing was said, and that is no error."""
    shown = show(model, GREEDY, deadline=time.monotonic() - 1)
    assert (shown.done.status, shown.done.reason) == ("incomplete", "deadline")
    assert (shown.done.output_ids, shown.done.error) == ((), None)


def test_a_cancelled_answer_stores_what_was_shown(model: LoadedModel, solo: Shown) -> None:
    """Also what was held back when it was cancelled; the deltas are all there is."""
    whole = solo.done.output_text
    shown = show(model, replace(GREEDY, max_tokens=300), whole[4:6] + "never said", cancel_after=2)
    assert (shown.done.status, shown.done.reason) == ("incomplete", "interrupted")
    assert shown.stored.token_ids == shown.done.output_ids


def test_a_partial_answer_has_the_ids_of_its_text(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a character or a stop string is incomplete, no token of it is stored (see `check`)."""
    monkeypatch.setattr(response_module, "PARTIAL_INTERVAL_S", 0.001)
    shown = show(model, replace(GREEDY, max_tokens=300), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd")
    assert len({answer.text for answer in shown.sink.partials}) >= 3


def test_logprobs_go_with_the_ids(model: LoadedModel, solo: Shown) -> None:
    """One for each sampled token, that token the most likely of a greedy answer; only if asked."""
    assert solo.done.logprobs is None
    shown = show(model, replace(GREEDY, logprobs=3))
    assert shown.done.output_ids == solo.done.output_ids
    assert shown.done.logprobs is not None
    assert len(shown.done.logprobs) == len(shown.done.output_ids)
    for token, entry in zip(shown.done.output_ids, shown.done.logprobs, strict=True):
        assert (entry.data or b"") == model.tokenizer.token_bytes[token]
        assert len(entry.top) == 3
        assert (entry.top[0].data, entry.top[0].logprob) == (entry.data, entry.logprob)
