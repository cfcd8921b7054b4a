"""`ResponseLog`: what a response has said so far, to be read from any place by any number.

    text       Hel lo , wor ld          one text, and where each delta ended in it
    numbers      4  5 6   7  8          4 + i; of an answer that was resumed the first is higher
    readers          ▲        ▲         a place each, and no queue: what a reader has missed is a
                  slow       quick      slice of the text, and comes as one delta

So a slow reader costs no memory and holds nobody up, and a place that somebody comes back with is
found as long as the log is there. Knows no socket, no store and no engine.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable

from radixchat.server.response_events import (
    FIRST_DELTA,
    NO_TEXT_DONE,
    CacheReport,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
)

# Characters that one reading returns at most: what is encoded and sent as one event.
MAX_DELTA = 64 * 1024


class ResponseLog:
    """Written by one, read by many; all on one event loop.

    text, sequence: of an answer that goes on after an interruption, what it had, and a number that
    is higher than whatever had been sent before: its deltas begin there.
    """

    def __init__(self, created: ResponseCreated, text: str = "", sequence: int = 0) -> None:
        self.created = created
        self.done: ResponseDone | None = None
        self._base = max(FIRST_DELTA, sequence)  # the number of the first delta
        self._chunks: list[str] = []
        self._ends = array("q")  # code points up to the end of each delta
        self._progress: PrefillProgress | None = None
        self._report: CacheReport | None = None
        self._num_states = 0
        self._readers: set[Subscription] = set()
        self.on_left: Callable[[], None] = lambda: None  # the last reader has gone
        if text:
            self._append(text)

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._chunks)

    @property
    def last_sequence(self) -> int:
        """The number of the last delta; of "in progress" where there never was one."""
        there_were = self._chunks or self._base > FIRST_DELTA
        return self._base + len(self._chunks) - 1 if there_were else 1

    def add_text(self, text: str) -> None:
        """One more delta."""
        assert self.done is None, "a response has one end"
        self._append(text)
        self._tell()

    def show(self, state: PrefillProgress | CacheReport) -> None:
        """News of the prompt; of each kind the last counts."""
        if isinstance(state, CacheReport):
            self._report = state
        else:
            self._progress = state
        self._num_states += 1
        self._tell()

    def end(self, done: ResponseDone) -> None:
        """The last event."""
        assert self.done is None, "a response has one end"
        self.done = done
        self._tell()

    def end_sequence(self, status: str) -> int:
        """The number of the first closing event of a response that ends so now."""
        if self._chunks:
            return self._base + len(self._chunks)
        return FIRST_DELTA if status == "completed" else NO_TEXT_DONE

    def subscribe(self, wake: Callable[[], None] | None = None, after: int = -1) -> Subscription:
        """A reader who has seen everything up to number `after`; `wake` is called with news."""
        reader = Subscription(self, wake, after)
        self._readers.add(reader)
        return reader

    def _append(self, text: str) -> None:
        self._chunks.append(text)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(text))

    def _tell(self) -> None:
        for reader in tuple(self._readers):
            reader._notify()


class Subscription:
    """One reader's place in a log. Close it; `async with` is not needed, for closing never waits.

    ended: the last event was taken.
    """

    def __init__(self, log: ResponseLog, wake: Callable[[], None] | None, after: int) -> None:
        self.log = log
        self.ended = False
        self._wake = wake
        self._news = asyncio.Event()
        self._news.set()
        self._begins = after < 1
        seen = after - log._base + 1
        # A place inside what was said before an interruption is a place no more.
        self._lost = FIRST_DELTA <= after < log._base
        self._place = min(max(seen, 0), len(log._chunks))
        self._num_states = 0

    def take(self, max_characters: int = MAX_DELTA) -> list[ResponseEvent]:
        """What is new, in order, never blocking; [] where nothing is.

        Deltas are merged to one of about so many characters at most; there may be more to take.
        """
        log, events = self.log, list[ResponseEvent]()
        if self._begins:
            self._begins = False
            events.append(log.created)
        if self._num_states != log._num_states:
            self._num_states = log._num_states
            events += (s for s in (log._report, log._progress) if s is not None)
        if self._lost:
            self._lost = False
            self._place = len(log._chunks)
            status = "in_progress" if log.done is None else log.done.status
            id_ = log.created.response
            events.append(ResponseSnapshot(id_, log.last_sequence, log.text, status))
        if self._place < len(log._chunks):
            events.append(self._delta(max_characters))
        if self._place < len(log._chunks):
            return events  # more to take: it stays awake
        if log.done is not None and not self.ended:
            self.ended = True
            events.append(log.done)
        self._news.clear()
        return events

    async def wait(self) -> None:
        """Until there is something to take, or all was taken."""
        if not self.ended:
            await self._news.wait()

    def close(self) -> None:
        """Read no more; a second time does nothing."""
        if self in self.log._readers:
            self.log._readers.remove(self)
            if not self.log._readers:
                self.log.on_left()

    def _notify(self) -> None:
        self._news.set()
        if self._wake is not None:
            self._wake()

    def _delta(self, max_characters: int) -> OutputTextDelta:
        log, start = self.log, self._place
        offset = log._ends[start - 1] if start else 0
        end = start + 1
        while end < len(log._chunks) and log._ends[end] - offset <= max_characters:
            end += 1
        self._place = end
        return OutputTextDelta(
            response=log.created.response,
            delta="".join(log._chunks[start:end]),
            sequence=log._base + end - 1,
            first_sequence=log._base + start if start else FIRST_DELTA,
            offset=offset,
        )
