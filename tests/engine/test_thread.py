"""The engine thread: streams, cancellation, refusals, failure, and the end."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Never

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineStopped, PromptTooLong
from radixchat.engine.hint import Observe, Purge, Supersede
from radixchat.engine.request import FinishReason, Request, TokenEvent, fan_out
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.thread import EngineThread
from radixchat.engine.weights import Checkpoint
from radixchat.radix.use import Signal
from radixchat.tests.engine.driver import GREEDY, answer, make_engine

SAMPLED = SamplingParams(temperature=1.0, max_tokens=8)
LONG = SamplingParams(temperature=0, max_tokens=400)


def with_thread(engine: Engine, body: Coroutine[Any, Any, None], thread: EngineThread) -> None:
    """Run `body` with the thread started, and stop it whatever happens."""

    async def main() -> None:
        thread.start()
        try:
            await asyncio.wait_for(body, 60)
        finally:
            await thread.stop()

    asyncio.run(main())


async def collect(stream: AsyncGenerator[TokenEvent]) -> list[TokenEvent]:
    async with aclosing(stream):
        return [event async for event in stream]


def test_streams_give_each_request_its_own_tokens(tiny: Checkpoint) -> None:
    """Concurrent streams equal the engine driven by hand, each ends with one last event."""
    thread = EngineThread(engine := make_engine(tiny))
    prompts = [[i, i + 1, i + 2] for i in range(8)]

    async def body() -> None:
        streams = [thread.generate(Request(i, p.copy(), GREEDY)) for i, p in enumerate(prompts)]
        for prompt, events in zip(
            prompts, await asyncio.gather(*map(collect, streams)), strict=True
        ):
            assert [event.token for event in events] == answer(make_engine(tiny), prompt).tokens
            assert [event.finish for event in events[:-1]] == [None] * (len(events) - 1)
            assert events[-1].finish is FinishReason.LENGTH
        assert thread.snapshot.counters.requests == 8

    with_thread(engine, body(), thread)
    engine.cache.check()


def test_samples_of_one_prompt_share_a_stream(tiny: Checkpoint) -> None:
    """Each has its own tokens and one end; leaving the stream cancels those that still run."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        events = await collect(
            thread.generate(*fan_out(Request(0, [1, 2, 3], SAMPLED), [10, 11, 12]))
        )
        assert [e.request_id for e in events if e.finish] == [10, 11, 12]
        answers = [[e.token for e in events if e.request_id == i] for i in (10, 11, 12)]
        assert len(set(map(tuple, answers))) == 3
        assert answers[0] == answer(make_engine(tiny), [1, 2, 3], SAMPLED).tokens
        one = Request(20, [4, 5], SamplingParams(temperature=0, max_tokens=2))
        stream = thread.generate(one, Request(21, [6, 7], LONG))
        async with aclosing(stream):
            async for event in stream:
                if event.finish is not None:
                    break
        while thread.snapshot.counters.cancelled == 0:
            await collect(thread.generate(Request(1, [4], GREEDY)))

    with_thread(engine, body(), thread)
    engine.cache.check()
    assert engine.scheduler.stats.output_tokens < 300


def test_a_group_is_refused_as_a_whole(tiny: Checkpoint) -> None:
    """One prompt that is too long: none of the others is answered, and their ids are free."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        group = [Request(0, [1, 2], GREEDY), Request(1, [1] * 600, GREEDY)]
        with pytest.raises(PromptTooLong):
            await collect(thread.generate(*group))
        assert len(await collect(thread.generate(Request(0, [1, 2], GREEDY)))) == 12
        assert thread.snapshot.counters.requests == 1

    with_thread(engine, body(), thread)


def test_a_step_that_does_not_end_is_reported_once(
    tiny: Checkpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop notices, for the thread cannot; the answer comes when the step ends after all."""
    monkeypatch.setattr("radixchat.engine.thread.LONG_STEP_SECONDS", 0.05)
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        tokens = SlowTokens([1, 2], lambda: bool(caplog.records))
        await collect(thread.generate(Request(0, tokens, SamplingParams(max_tokens=1))))

    with caplog.at_level(logging.ERROR):
        with_thread(engine, body(), thread)
    (record,) = caplog.records
    assert re.search(r"a step has been running for \d+ s", record.getMessage())


@pytest.mark.usefixtures("unhurried")
def test_leaving_a_stream_cancels_its_request(tiny: Checkpoint) -> None:
    """The engine stops decoding soon after the consumer left, and keeps what it computed."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        stream = thread.generate(Request(0, [1, 2, 3], LONG))
        async with aclosing(stream):
            async for _ in stream:
                break
        while thread.snapshot.counters.requests == 0:
            await collect(thread.generate(Request(1, [4], GREEDY)))
        assert thread.snapshot.counters.cancelled == 1

    with_thread(engine, body(), thread)
    assert engine.cache.match([1, 2, 3]).length == 3
    assert engine.scheduler.stats.output_tokens < 300


@pytest.mark.usefixtures("unhurried")
def test_cancel_ends_the_stream_with_its_usage(tiny: Checkpoint) -> None:
    """A cancelled request gets its last event, CANCELLED, with what it cost."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        events = []
        async for event in thread.generate(Request(0, [1, 2, 3], LONG)):
            events.append(event)
            if len(events) == 3:
                thread.cancel(0)
        assert events[-1].finish is FinishReason.CANCELLED
        assert events[-1].usage is not None
        assert events[-1].usage.output_tokens == len(events) - 1
        thread.cancel(0)
        thread.cancel(77)

    with_thread(engine, body(), thread)


def test_a_refusal_reaches_its_own_stream_only(tiny: Checkpoint) -> None:
    """A prompt that cannot fit raises in its stream; the others are answered."""
    thread = EngineThread(engine := make_engine(tiny, pool_tokens=64))

    async def body() -> None:
        good = asyncio.create_task(collect(thread.generate(Request(0, [1, 2], GREEDY))))
        with pytest.raises(PromptTooLong, match="64 tokens"):
            await collect(thread.generate(Request(1, [7] * 64, GREEDY)))
        assert (await good)[-1].finish is FinishReason.LENGTH

    with_thread(engine, body(), thread)


class DamagedTokens(list[int]):
    """Looks right when it is submitted; the step that reads it raises."""

    def __getitem__(self, index: object) -> Never:
        raise IndexError(f"damaged at {index}")


def test_an_engine_that_failed_is_watched_no_more(tiny: Checkpoint) -> None:
    """Its last step never ended; nobody is told later that it is still running."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        with pytest.raises(EngineStopped):
            await collect(thread.generate(Request(0, DamagedTokens([1]), GREEDY)))
        await asyncio.sleep(0)
        assert thread._watcher.cancelled()

    with_thread(engine, body(), thread)


class SlowTokens(list[int]):
    """A step that appends to them does not end before something is so, and then for a while."""

    def __init__(self, tokens: list[int], is_so: Callable[[], bool]) -> None:
        super().__init__(tokens)
        self._is_so = is_so

    def append(self, token: int) -> None:
        """As a list does, later."""
        deadline = time.monotonic() + 30
        while not self._is_so() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.2)
        super().append(token)


@pytest.mark.usefixtures("unhurried")
def test_a_failing_step_stops_every_stream_and_later_calls(tiny: Checkpoint) -> None:
    """Damage inside a step reaches every stream as EngineStopped, with the cause."""
    engine = make_engine(tiny)
    thread = EngineThread(engine)

    async def body() -> None:
        running = asyncio.create_task(collect(thread.generate(Request(0, [1], LONG))))
        with pytest.raises(EngineStopped) as stopped:
            await collect(thread.generate(Request(1, DamagedTokens([1]), GREEDY)))
        assert isinstance(stopped.value.__cause__, IndexError)
        with pytest.raises(EngineStopped):
            await running
        with pytest.raises(EngineStopped, match="the engine failed: IndexError"):
            await collect(thread.generate(Request(2, [1], GREEDY)))

    with_thread(engine, body(), thread)


@pytest.mark.usefixtures("unhurried")
def test_stopping_ends_open_streams(tiny: Checkpoint) -> None:
    """A stream that is open when the engine stops raises EngineStopped, and stop returns."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        running = asyncio.create_task(collect(thread.generate(Request(0, [1], LONG))))
        await asyncio.sleep(0.05)
        await thread.stop()
        with pytest.raises(EngineStopped, match="was stopped"):
            await running
        with pytest.raises(EngineStopped, match="was stopped"):
            await collect(thread.generate(Request(1, [1], GREEDY)))

    with_thread(engine, body(), thread)


def test_a_thread_that_was_not_started_says_so(tiny: Checkpoint) -> None:
    """Generating before start is an error, not a wait for ever."""
    thread = EngineThread(make_engine(tiny))
    with pytest.raises(EngineStopped, match="not started"):
        asyncio.run(collect(thread.generate(Request(0, [1], GREEDY))))


def test_a_purge_tells_how_many_bytes_it_freed(tiny: Checkpoint) -> None:
    """A deleted conversation's path is gone from the cache; another's stays."""
    thread = EngineThread(engine := make_engine(tiny))
    plan = engine.plan

    async def body() -> None:
        for id_, conversation, prompt in ((0, "a", [1, 2, 3]), (1, "b", [4, 5, 6])):
            await collect(thread.generate(Request(id_, prompt, GREEDY, conversation=conversation)))
        cached = engine.cache.num_cached_pages
        freed = await thread.purge(Purge((1, 2, 3), "a"))
        pages = cached - engine.cache.num_cached_pages
        assert freed == pages * plan.page_size * plan.kv_bytes_per_token > 0
        assert engine.cache.match([1, 2, 3]).length == 0
        assert engine.cache.match([4, 5, 6]).length == 3
        assert await thread.purge(Purge((1, 2, 3), "a")) == 0

    with_thread(engine, body(), thread)
    engine.cache.check()


def test_a_purge_after_the_end_is_refused(tiny: Checkpoint) -> None:
    """Nobody waits for an engine that has stopped."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        await thread.stop()
        with pytest.raises(EngineStopped):
            await thread.purge(Purge((1,), "a"))

    with_thread(engine, body(), thread)


def test_what_is_told_comes_before_the_next_request(tiny: Checkpoint) -> None:
    """Hints reach the cache in order, and no answer differs for them."""
    thread = EngineThread(engine := make_engine(tiny))

    async def body() -> None:
        first = await collect(thread.generate(Request(0, [1, 2, 3], GREEDY, conversation="a")))
        thread.hint(Supersede((1, 2, 3), 2, "a"))
        thread.hint(Observe("a", Signal.CLOSED))
        again = await collect(thread.generate(Request(1, [1, 2, 3], GREEDY, conversation="a")))
        assert [event.token for event in again] == [event.token for event in first]
        usage = again[-1].usage
        assert usage is not None
        assert usage.cached_tokens == 2

    with_thread(engine, body(), thread)
    engine.cache.check()


def test_questions_are_answered_between_steps(tiny: Checkpoint) -> None:
    """On the engine's thread, while it works; a failure goes to who asked, and to nobody else."""
    thread = EngineThread(make_engine(tiny))

    async def body() -> None:
        events = thread.generate(Request(1, [3, 4, 5], LONG))
        async with aclosing(events):
            await anext(events)
            names = await asyncio.gather(
                *(thread.ask(lambda _: threading.current_thread().name) for _ in range(3))
            )
            assert set(names) == {"engine"}
            with pytest.raises(ZeroDivisionError):
                await thread.ask(lambda _: 1 // 0)
            assert (await anext(events)).token is not None
        assert thread.failure is None

    with_thread(make_engine(tiny), body(), thread)
    assert isinstance(thread.failure, EngineStopped)
    with pytest.raises(EngineStopped):
        asyncio.run(thread.ask(lambda _: None))
