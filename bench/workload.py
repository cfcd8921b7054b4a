"""A generated chat workload: thousands of conversations interleaved, with their clients' signals.

Owns who arrives when and the order of everything that happens; a single conversation is lived in
`workload_life.py` with the habits of `workload_habits.py`. A workload is like a `Trace`: each
`iter()` generates it again from the seed, the same to the token, and only the conversations that
are under way are in memory. Each has generators of its own, so what it does depends on nothing
but the seed and its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from radixchat.bench import workload_habits as habits
from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.bench.workload_life import TOKEN_RANGE, ConversationLife

# What a generator is for; with the seed and a number it is the generator's key.
_ARRIVALS, _SYSTEM_PROMPT, _BEHAVIOUR, _TEXTS = range(4)

_Events: TypeAlias = Iterator[TraceRequest | TraceSignal]


class ChatWorkload:
    """Chat traffic in time order; iterate it as often as wanted.

    seed: the same seed gives the same traffic. conversations: how many begin. lengths: a name in
    `workload_habits.LENGTHS`. shift: the habits change every hour.
    """

    format = "workload"
    unit_tokens = 1

    def __init__(
        self, seed: int, conversations: int = 2000, lengths: str = "chat", *, shift: bool = False
    ) -> None:
        if seed < 0:
            raise ValueError(f"seed is {seed}; it must not be negative")
        if conversations < 1:
            raise ValueError(f"conversations is {conversations}; it must be at least 1")
        if lengths not in habits.LENGTHS:
            allowed = ", ".join(habits.LENGTHS)
            raise ValueError(f"lengths is {lengths!r}; it must be one of {allowed}")
        self.name = f"{lengths}-shift" if shift else lengths
        self.seed = seed
        self.conversations = conversations
        self._lengths = habits.LENGTHS[lengths]
        self._shift = shift

    def __iter__(self) -> Iterator[TraceRequest | TraceSignal]:
        """Merge the conversations by time; one is begun when the time of its arrival has come."""
        arrivals = self._arrivals()
        under_way: list[tuple[float, int, TraceRequest | TraceSignal, _Events]] = []
        begun = 0
        while begun < len(arrivals) or under_way:
            if begun < len(arrivals) and not (under_way and under_way[0][0] < arrivals[begun]):
                index, events = begun, self._begin(begun, float(arrivals[begun]))
                begun += 1
            else:
                _, index, event, events = heappop(under_way)
                yield event
            if (following := next(events, None)) is not None:
                heappush(under_way, (following.time, index, following, events))

    def _arrivals(self) -> NDArray[np.float64]:
        random = self._generator(_ARRIVALS, 0)
        gaps = random.exponential(habits.HOUR / habits.ARRIVALS_PER_HOUR, self.conversations)
        return np.cumsum(gaps)

    def _begin(self, index: int, arrival: float) -> _Events:
        random = self._generator(_BEHAVIOUR, index)
        weights = np.arange(1, habits.NUM_SYSTEM_PROMPTS + 1) ** -habits.SYSTEM_PROMPT_ZIPF
        system = int(random.choice(habits.NUM_SYSTEM_PROMPTS, p=weights / weights.sum()))
        life = ConversationLife(
            f"{index:05}",
            self._system_prompt(system),
            self._lengths,
            shift=self._shift,
            random=random,
            texts=self._generator(_TEXTS, index),
        )
        return life.events(arrival)

    def _system_prompt(self, number: int) -> NDArray[np.int32]:
        random = self._generator(_SYSTEM_PROMPT, number)
        length = max(2, round(habits.SYSTEM_PROMPT_TOKENS.draw(random)))
        return random.integers(TOKEN_RANGE, size=length, dtype=np.int32)

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.Generator(
            np.random.Philox(np.random.SeedSequence((self.seed, purpose, number)))
        )
