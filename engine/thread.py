"""The thread that runs an Engine, and the two hand-overs between it and an event loop.

    loop                                  engine thread
    generate(request) ── inbox ─────────► submit, cancel, hint, ask
                                          step, step, step ...
    deliver(events) ◄─ one call_soon_threadsafe per step

Everything the engine owns is touched by its thread only, everything else by the loop only, so
there is no lock. Knows no text and no conversation.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from radixchat.engine.collector import GarbageCollector
from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineStopped, RadixChatError
from radixchat.engine.hint import Hint, Purge
from radixchat.engine.request import FinishReason, Request, TokenEvent
from radixchat.engine.stats import EngineSnapshot

_LOGGER = logging.getLogger(__name__)

# Without a command for so long, the thread has time to look after its memory.
IDLE_SECONDS = 30.0
# While nothing can move, it looks so often whether that has changed.
STILL_SECONDS = 0.02
# A forward pass of the largest step takes a second or two on a slow machine.
LONG_STEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question to the engine and who waits for the answer."""

    call: Callable[[Engine], Any]
    outcome: asyncio.Future[Any]


# Requests (none: news for the engine), an id to cancel, a hint, a question; None: the end.
_Command = tuple[Request, ...] | int | Hint | _Asking | None
T = TypeVar("T")
_Arguments = TypeVarTuple("_Arguments")


class EngineThread:
    """Runs one engine for one event loop.

    When a step raises, every open stream and every later call gets EngineStopped with the
    failure as its cause; the engine is not used again. `snapshot` is as of the last step that
    had events. While it runs, the process's garbage collector is in its hands (`collector.py`).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._collector = GarbageCollector()
        self.snapshot = engine.snapshot()
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._questions: set[asyncio.Future[Any]] = set()
        self._streams: dict[int, asyncio.Queue[TokenEvent | EngineStopped]] = {}
        self._stopped: EngineStopped | None = EngineStopped("the engine was not started")
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._watcher: asyncio.Task[None]
        # Called on the loop with what each step brought, before the streams have it.
        self.on_events: Callable[[list[TokenEvent]], None] = lambda _: None
        self._step_began: float | None = None  # written by the thread, read by the loop
        engine.on_news(lambda: self._inbox.put(()))

    def start(self) -> None:
        """Begin to serve the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._stopped = None
        self._thread.start()
        self._watcher = self._loop.create_task(self._watch_steps(), name="engine watchdog")

    async def generate(self, *requests: Request) -> AsyncGenerator[TokenEvent]:
        """The requests' events as they come, up to the last one's with `finish`.

        Several are submitted together, all or none. Leaving the iteration early cancels what
        still runs; what was computed stays in the cache. Raises EngineStopped; PromptTooLong and
        EngineOverloaded as Engine.submit does, and the error of a request that fails, after its
        last event.
        """
        if self._stopped is not None:
            raise self._stopped
        stream: asyncio.Queue[TokenEvent | EngineStopped] = asyncio.Queue()
        for request in requests:
            assert request.id not in self._streams, f"request id {request.id} is in use"
            self._streams[request.id] = stream
        self._inbox.put(requests)
        running = {request.id for request in requests}
        try:
            while running:
                event = await stream.get()
                if isinstance(event, EngineStopped):
                    raise event
                if event.finish is not None:
                    running.remove(event.request_id)
                yield event
                if event.error is not None:
                    raise event.error
        finally:
            for request in requests:
                del self._streams[request.id]
            for request_id in running:
                self.cancel(request_id)

    def cancel(self, request_id: int) -> None:
        """End a request at the next step; its stream then gets its last event."""
        self._inbox.put(request_id)

    def hint(self, hint: Hint) -> None:
        """Tell of a conversation; taken in before any request that is handed over later."""
        self._inbox.put(hint)

    async def purge(self, purge: Purge) -> int:
        """Forget a deleted conversation's path; the bytes of KV that became free.

        Raises EngineStopped.
        """
        return await self.ask(lambda engine: engine.purge(purge))

    async def ask(self, call: Callable[[Engine], T]) -> T:
        """What `call` returns, made between two steps on the engine's thread; it must be short.

        Raises EngineStopped, and what `call` raises.
        """
        if self._stopped is not None:
            raise self._stopped
        outcome: asyncio.Future[T] = self._loop.create_future()
        self._questions.add(outcome)
        outcome.add_done_callback(self._questions.discard)
        self._inbox.put(_Asking(call, outcome))
        return await outcome

    @property
    def failure(self) -> EngineStopped | None:
        """Why it does not run; None while it does."""
        return self._stopped

    async def stop(self) -> None:
        """Finish the step that runs, then end the thread; open streams get EngineStopped."""
        if self._stopped is None:
            self._inbox.put(None)
            await asyncio.to_thread(self._thread.join)
            self._close(EngineStopped("the engine was stopped"))
            await asyncio.wait({self._watcher})

    def _run(self) -> None:
        try:
            with self._collector:
                while self._take_in():
                    self._step_began = time.monotonic()
                    events = self._engine.step()
                    self._step_began = None
                    if events:
                        self._hand_over(self._deliver, events, self._engine.snapshot())
                    self._collector.after_step()
                self._engine.close()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it ends every stream
            stopped = EngineStopped(f"the engine failed: {type(failure).__name__}: {failure}")
            stopped.__cause__ = failure
            self._hand_over(self._close, stopped)

    async def _watch_steps(self) -> None:
        """Report a step that does not end: a device that hangs, a machine that swaps."""
        reported: float | None = None
        while True:
            await asyncio.sleep(LONG_STEP_SECONDS / 10)
            began = self._step_began
            if began is None or began == reported:
                continue
            seconds = time.monotonic() - began
            if seconds >= LONG_STEP_SECONDS:
                reported = began
                _LOGGER.error(
                    "a step has been running for %.0f s; before it %d requests ran and %d waited",
                    seconds,
                    self.snapshot.running,
                    self.snapshot.waiting,
                )

    def _take_in(self) -> bool:
        """Pass on what the loop asked for, waiting when there is nothing else to do."""
        while True:
            idle = not self._engine.has_work
            has_chores = idle and self._engine.has_chores
            waits = not has_chores and (idle or self._engine.is_still)
            patience = STILL_SECONDS if self._engine.is_still else IDLE_SECONDS
            try:
                command = self._inbox.get(waits, patience)
            except queue.Empty:
                if has_chores:
                    self._engine.do_chores()
                    continue
                if idle:
                    self._collector.when_idle()
                    continue
                return True
            match command:
                case None:
                    return False
                case int():
                    self._engine.cancel(command)
                case _Asking():
                    self._answer(command)
                case ():
                    self._engine.collect()
                case tuple():
                    self._submit(command)
                case _:
                    self._engine.hint(command)

    def _answer(self, asking: _Asking) -> None:
        outcome: object
        try:
            outcome = asking.call(self._engine)
        except Exception as failure:  # noqa: BLE001 - it is told to who asked
            outcome = failure
        self._hand_over(_settle, asking.outcome, outcome)

    def _submit(self, requests: tuple[Request, ...]) -> None:
        try:
            self._engine.submit(*requests)
        except RadixChatError as refusal:
            refusals = [refused(request, refusal) for request in requests]
            self._hand_over(self._deliver, refusals, self._engine.snapshot())

    def _hand_over(self, call: Callable[[*_Arguments], None], *arguments: *_Arguments) -> None:
        """Have the loop make the call."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed: nobody is left to tell, and nothing left to serve.
            self._inbox.put(None)

    def _deliver(self, events: list[TokenEvent], snapshot: EngineSnapshot) -> None:
        self.snapshot = snapshot
        self.on_events(events)
        for event in events:
            stream = self._streams.get(event.request_id)
            if stream is not None:
                stream.put_nowait(event)

    def _close(self, stopped: EngineStopped) -> None:
        self._stopped = stopped
        self._watcher.cancel()
        for stream in self._streams.values():
            stream.put_nowait(stopped)
        for question in self._questions:
            _settle(question, stopped)


def _settle(question: asyncio.Future[Any], outcome: object) -> None:
    """Answer who waits for it, unless he has gone."""
    if question.done():
        return
    if isinstance(outcome, Exception):
        question.set_exception(outcome)
    else:
        question.set_result(outcome)


def refused(request: Request, error: RadixChatError) -> TokenEvent:
    """The only event of a request that the engine did not take."""
    return TokenEvent(request.id, None, FinishReason.FAILED, request.usage(), error)
