"""`EngineMix`: the traffic of `bench engine`, as numbers, and what it plans from a seed.

Owns who says what and when at the earliest; what is answered, and when, comes from the engine.
Knows no engine.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from radixchat.bench.bench_model import random_tokens


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """A user's message: so many tokens are answered. time: seconds, from the start of the run.

    It is sent then, or when the turn before has been answered, if that is later.
    """

    time: float
    message: tuple[int, ...]
    answer: int


@dataclass(frozen=True, slots=True)
class PlannedConversation:
    """Turns that share a history, which begins with a system prompt that others have too."""

    name: str
    system: tuple[int, ...]
    turns: tuple[PlannedTurn, ...]


@dataclass(frozen=True, slots=True)
class EngineMix:
    """Open-loop chat traffic: times of arrival do not depend on how fast it is answered.

    rate: conversations that begin in a second, a Poisson process. turns: at most, each number as
    likely. systems: how many system prompts there are, of system_tokens each. short, long: lengths
    of messages, long_share of them long; answer: of answers; all three log-uniform. think: mean
    seconds between two messages of a conversation, exponential.
    """

    conversations: int = 20
    rate: float = 1.0
    turns: int = 4
    think: float = 5.0
    systems: int = 4
    system_tokens: int = 300
    short: tuple[int, int] = (8, 60)
    long: tuple[int, int] = (300, 700)
    long_share: float = 0.15
    answer: tuple[int, int] = (8, 64)

    @property
    def longest(self) -> int:
        """Tokens of the longest conversation that may come out."""
        return self.system_tokens + self.turns * (self.long[1] + self.answer[1])

    def plan(self, seed: int, vocab_size: int) -> list[PlannedConversation]:
        """The conversations in order of arrival; the same seed plans the same ones."""
        rng = random.Random(seed)
        systems = [
            tuple(random_tokens(rng, vocab_size, self.system_tokens)) for _ in range(self.systems)
        ]
        planned, time = [], 0.0
        for number in range(self.conversations):
            time += rng.expovariate(self.rate) if number else 0.0
            turns = self._turns(rng, time, vocab_size)
            planned.append(PlannedConversation(f"{number:03}", rng.choice(systems), turns))
        return planned

    def _turns(self, rng: random.Random, time: float, vocab_size: int) -> tuple[PlannedTurn, ...]:
        turns = []
        for _ in range(rng.randint(1, self.turns)):
            span = self.long if rng.random() < self.long_share else self.short
            message = tuple(random_tokens(rng, vocab_size, _length(rng, span)))
            turns.append(PlannedTurn(time, message, _length(rng, self.answer)))
            time += rng.expovariate(1 / self.think)
        return tuple(turns)

    def __str__(self) -> str:
        (short, shorts), (long, longs), (answer, answers) = self.short, self.long, self.answer
        return (
            f"{self.conversations} conversations of 1 to {self.turns} turns, {self.rate:g} begin a"
            f" second; {self.systems} system prompts of {self.system_tokens} tokens; messages of"
            f" {short} to {shorts}, {self.long_share:.0%} of {long} to {longs}; answers of {answer}"
            f" to {answers}; {self.think:g} s between messages"
        )


# Fits a context of 512 tokens.
QUICK = EngineMix(
    conversations=8, rate=100.0, turns=3, think=0.02, systems=2, system_tokens=40, short=(4, 16),
    long=(50, 90), answer=(3, 12),
)  # fmt: skip


def _length(rng: random.Random, span: tuple[int, int]) -> int:
    low, high = span
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
