"""One conversation of the generated workload: its turns, its branches, and what its client tells.

Owns the conversation's tokens and its place in time, and lives it event by event, so that only
what is under way is in memory. It knows no other conversation and no cache. Where it draws from
is `workload_habits.py`.

The tokens of the branch that is shown, and where its messages begin:

    system    user     reply      user     reply
    |---------|--------|----------|--------|----------|
              turns[0] answers[0] turns[1] answers[1]

The next turn appends. A regenerate cuts at the last of `answers`, an edit at one of `turns` or
somewhat after it; what was there becomes the branch beside, to which a few go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.bench import workload_habits as habits
from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.bench.workload_habits import Habits, Leaving, Lengths, LogNormal
from radixchat.radix.use import Signal

Tokens = NDArray[np.int32]
TOKEN_RANGE = 2**31 - 1  # so wide that no two messages begin alike by chance
LEFT = {
    Leaving.HIDES: Signal.AWAY,
    Leaving.DISCONNECTS: Signal.DISCONNECTED,
    Leaving.CLOSES: Signal.CLOSED,
}


@dataclass(frozen=True, slots=True)
class Branch:
    """Tokens from the system prompt to the last answer, and where the messages begin."""

    tokens: Tokens
    turns: tuple[int, ...]
    answers: tuple[int, ...]


class ConversationLife:
    """Lives one conversation once; `events` is to be called once."""

    def __init__(
        self,
        name: str,
        system: Tokens,
        lengths: Lengths,
        *,
        shift: bool,
        random: np.random.Generator,
        texts: np.random.Generator,
    ) -> None:
        self._name = name
        self._lengths = lengths
        self._shift = shift
        self._random = random
        self._texts = texts
        self._branch = Branch(system, (), ())
        self._beside: tuple[Branch, int] | None = None  # the branch left, and where it diverges

    def events(self, arrival: float) -> Iterator[TraceRequest | TraceSignal]:
        """Everything that happens, in time order, from opening the window at `arrival`."""
        yield self._signal(arrival, Signal.CONNECTED)
        due = arrival + habits.FIRST_WORDS.draw(self._random)
        message = self._write(self._lengths.user)
        yield from self._typing(arrival, due - self._typing_time(message), due)
        yield self._next_turn(due, message)
        while True:
            answered = due + self._answer_length() / habits.TOKENS_PER_SECOND
            mood = Habits.at(answered, self._lengths, self._shift)
            turn = len(self._branch.turns)
            leaves = mood.leave_first if turn == 1 else mood.leave_later
            if turn >= habits.MAX_TURNS or self._chance(leaves):
                self._branch = Branch(self._branch.tokens[:0], (), ())  # nobody asks for it again
                self._beside = None
                yield from self._farewell(answered)
                return
            kind = self._random.random()
            if kind < habits.REGENERATE_SHARE:
                due = answered + habits.DISLIKE.draw(self._random)
                yield self._regenerate(due)
            elif kind < habits.REGENERATE_SHARE + habits.EDIT_SHARE:
                due = answered + habits.CORRECTION.draw(self._random)
                message = self._write(self._lengths.user)
                yield from self._typing(answered, due - self._typing_time(message), due)
                yield self._edit(due, message)
            else:
                due = answered + self._pause(mood)
                message = self._write(self._lengths.user)
                yield from self._wait(answered, due, self._typing_time(message))
                yield self._next_turn(due, message)

    # What is asked.

    def _next_turn(self, time: float, message: Tokens) -> TraceRequest:
        superseded = None
        if self._beside is not None and self._chance(habits.SWITCH_BACK_SHARE):
            self._branch, superseded = self._beside
        self._beside = None
        return self._ask(time, self._branch, message, superseded)

    def _regenerate(self, time: float) -> TraceRequest:
        branch = self._branch
        start = branch.answers[-1]
        self._beside = branch, start
        question = branch.tokens[branch.turns[-1] : start]
        above = Branch(branch.tokens[: branch.turns[-1]], branch.turns[:-1], branch.answers[:-1])
        return self._ask(time, above, question, start)

    def _edit(self, time: float, message: Tokens) -> TraceRequest:
        branch = self._branch
        index = len(branch.turns) - 1
        if not self._chance(habits.EDIT_LAST_SHARE):
            index = int(self._random.integers(len(branch.turns)))
        start, kept = branch.turns[index], 0
        if self._chance(habits.EDIT_KEEPS_HEAD):
            kept = int(self._random.integers(branch.answers[index] - start))
        self._beside = branch, start + kept
        above = Branch(branch.tokens[:start], branch.turns[:index], branch.answers[:index])
        head = branch.tokens[start : start + kept]
        return self._ask(time, above, np.concatenate((head, message)), start + kept)

    def _ask(
        self, time: float, above: Branch, message: Tokens, superseded: int | None
    ) -> TraceRequest:
        prompt = np.concatenate((above.tokens, message))
        reply = self._write(self._lengths.reply)
        turns, answers = (*above.turns, len(above.tokens)), (*above.answers, len(prompt))
        self._branch = Branch(np.concatenate((prompt, reply)), turns, answers)
        return TraceRequest(
            prompt,
            len(prompt),
            reply,
            time,
            conversation=self._name,
            turn=len(turns),
            superseded=superseded,
        )

    def _write(self, length: LogNormal) -> Tokens:
        number = min(max(round(length.draw(self._random)), 2), habits.MAX_MESSAGE)
        return self._texts.integers(TOKEN_RANGE, size=number, dtype=np.int32)

    def _answer_length(self) -> int:
        return len(self._branch.tokens) - self._branch.answers[-1]

    # What happens meanwhile.

    def _pause(self, mood: Habits) -> float:
        if self._chance(habits.BREAK_SHARE):
            return habits.BREAK.draw(self._random)
        return habits.THINKING.draw(self._random) * mood.think_scale

    def _wait(self, start: float, end: float, typing: float) -> Iterator[TraceSignal]:
        """What the client tells between an answer and the turn that follows it at `end`.

        typing: the seconds that writing it takes; a part of a short wait is all there is.
        """
        gap = end - start
        if gap < habits.SHORT:
            leaving = habits.SHORT_WAIT.draw(self._random)
        elif gap < habits.MEDIUM:
            leaving = habits.MEDIUM_WAIT.draw(self._random)
        else:
            leaving = habits.LONG_WAIT.draw(self._random)
        if leaving is Leaving.STAYS:
            read = start + 0.4 * gap
            yield from self._restlessness(start, read)
            yield from self._typing(read, end - typing, end)
            return
        gone = start + min(0.3 * gap, habits.DEPARTURE.draw(self._random))
        back = end - min(0.5 * gap, habits.RECONNECT_LEAD.draw(self._random) + typing)
        yield self._signal(gone, LEFT[leaving])
        yield from self._glance(gone, back, LEFT[leaving])
        yield self._signal(back, Signal.CONNECTED)
        yield from self._typing(back, end - typing, end)

    def _farewell(self, start: float) -> Iterator[TraceSignal]:
        """What the client tells after the last answer."""
        leaving = habits.FOR_GOOD.draw(self._random)
        gone = start + habits.DEPARTURE.draw(self._random)
        if leaving is Leaving.STAYS:
            yield from self._restlessness(start, gone)
        else:
            yield self._signal(gone, LEFT[leaving])
        if leaving is Leaving.CLOSES:
            return
        end = gone + habits.LATE_CLOSE.draw(self._random)
        if leaving is not Leaving.STAYS:
            yield from self._glance(gone, end, LEFT[leaving])
        if self._chance(habits.LATE_CLOSE_SHARE):
            yield self._signal(end, Signal.CLOSED)
        elif leaving is not Leaving.DISCONNECTS and self._chance(habits.ABANDONED_SHARE):
            yield self._signal(end + habits.ABANDONED.draw(self._random), Signal.DISCONNECTED)

    def _typing(self, earliest: float, begin: float, end: float) -> Iterator[TraceSignal]:
        """The first key of a message that is sent at `end`."""
        if self._chance(habits.TYPING_SIGNALLED):
            yield self._signal(min(end, max(earliest, begin)), Signal.TYPING)

    def _typing_time(self, message: Tokens) -> float:
        return min(len(message), habits.MAX_TYPED) / habits.TYPING_SPEED.draw(self._random)

    def _restlessness(self, start: float, end: float) -> Iterator[TraceSignal]:
        """Signals of somebody who is there, none of which means anything."""
        if self._chance(habits.DRAFT_DROPPED):
            yield self._signal(start + 0.4 * (end - start) * self._random.random(), Signal.TYPING)
        if self._chance(habits.CONNECTION_BREAKS):
            broken = start + (0.4 + 0.3 * self._random.random()) * (end - start)
            mended = min(end, broken + habits.BROKEN_SECONDS.draw(self._random))
            yield self._signal(broken, Signal.DISCONNECTED)
            yield self._signal(mended, Signal.CONNECTED)

    def _glance(self, gone: float, back: float, left: Signal) -> Iterator[TraceSignal]:
        """A look at the window, somewhere in an absence, after which it is left as before."""
        if left is not Signal.CLOSED and self._chance(habits.GLANCE_SHARE):
            looks = gone + (back - gone) * self._random.random()
            yield self._signal(looks, Signal.CONNECTED)
            yield self._signal(min(back, looks + habits.GLANCE.draw(self._random)), left)

    def _signal(self, time: float, signal: Signal) -> TraceSignal:
        return TraceSignal(time, self._name, signal)

    def _chance(self, share: float) -> bool:
        return bool(self._random.random() < share)
