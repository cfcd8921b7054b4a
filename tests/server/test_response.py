"""One response whose store fails: it still has its one terminal event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.errors import StoreError
from radixchat.engine.request import Request, Usage
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.thread import EngineThread
from radixchat.server import response as response_module
from radixchat.server.answer_record import AnswerRecord
from radixchat.server.local import LocalSettings, load_model
from radixchat.server.message import Answer
from radixchat.server.protocol import MissReport, ResponseCreated, ResponseDone, ResponseEvent
from radixchat.server.response import Explanations, LiveResponse, ResponseSink
from radixchat.server.response_log import ResponseLog

Explain = Callable[[Usage], Awaitable[MissReport | None]]


class FailingSink:
    """A store that cannot be written; counts how often it was asked to."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.partials = 0

    async def save_partial(self, response: str, answer: Answer, sequence: int) -> None:
        self.partials += 1
        raise self.failure

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        raise self.failure


async def nothing_missed(usage: Usage) -> None:
    """No explanation of a miss."""


async def respond(
    settings: LocalSettings, sink: ResponseSink, tokens: int, explain: Explain = nothing_missed
) -> list[ResponseEvent]:
    model = load_model(settings)
    engine = EngineThread(model.engine)
    engine.start()
    try:
        request = Request(
            0,
            [1, 2, 3],
            SamplingParams(temperature=0, max_tokens=tokens),
            text=AnswerText(model.tokenizer.stream()),
        )
        plan = model.engine.plan
        response = LiveResponse(
            log=ResponseLog(ResponseCreated("conv_1", "resp_1")),
            request=request,
            record=AnswerRecord(request, model.tokenizer, time.monotonic(), plan.max_tokens),
            engine=engine,
            sink=sink,
            explanations=Explanations(explain),
        )
        return [event async for event in response.events()]
    finally:
        await engine.stop()


@pytest.mark.parametrize(
    ("failure", "code"),
    [(StoreError("the disk is full"), "store_error"), (RuntimeError("a bug"), "server_error")],
)
def test_a_failing_store_ends_the_response_visibly(
    tiny_directory: Path, failure: Exception, code: str
) -> None:
    """The consumer gets the text and one last event, "failed", with the reason."""
    sink = FailingSink(failure)
    settings = LocalSettings(str(tiny_directory), threads=1)
    events = asyncio.run(asyncio.wait_for(respond(settings, sink, 5), 300))
    done = events[-1]
    assert isinstance(done, ResponseDone)
    assert sum(isinstance(event, ResponseDone) for event in events) == 1
    assert done.status == "failed"
    assert done.error is not None
    assert done.error.code == code
    assert len(done.output_ids) == 5


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), RuntimeError("a bug")])
def test_a_failed_partial_save_is_tried_again(
    tiny_directory: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """A disk that is full for a moment does not end the saving."""
    monkeypatch.setattr(response_module, "PARTIAL_INTERVAL_S", 0.01)
    sink = FailingSink(failure)
    settings = LocalSettings(str(tiny_directory), threads=1)
    asyncio.run(asyncio.wait_for(respond(settings, sink, 400), 300))
    assert sink.partials >= 2


class WillingSink:
    """A store that takes everything."""

    async def save_partial(self, response: str, answer: Answer, sequence: int) -> None:
        pass

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        pass


@pytest.mark.parametrize(
    ("failure", "logged"), [(RuntimeError("a bug"), "a bug"), (StoreError("no disk"), "")]
)
def test_a_miss_that_cannot_be_explained_costs_no_answer(
    tiny_directory: Path, caplog: pytest.LogCaptureFixture, failure: Exception, logged: str
) -> None:
    """The answer is complete and says nothing of its miss; a bug is in the log."""

    async def explain(usage: Usage) -> None:
        raise failure

    settings = LocalSettings(str(tiny_directory), threads=1)
    events = asyncio.run(asyncio.wait_for(respond(settings, WillingSink(), 5, explain), 300))
    done = events[-1]
    assert isinstance(done, ResponseDone)
    assert (done.status, done.error, done.miss) == ("incomplete", None, None)
    assert len(done.output_ids) == 5
    assert logged in caplog.text
    assert bool(caplog.text) == bool(logged)
