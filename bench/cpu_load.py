"""What `bench cpu` asks of an arm: prompts to compute, or answers to go on with, at some context.

Knows no arm. A load's name is in the table, its key in the JSON.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from radixchat.bench.bench_model import random_tokens


@dataclass(frozen=True, slots=True)
class Load:
    """kind: "prefill" computes a prompt of `context` tokens up to the first token of its answer;
    "decode" goes on with `batch` answers behind so many tokens each, a token of each in a step."""

    kind: Literal["prefill", "decode"]
    context: int
    batch: int = 1

    @property
    def name(self) -> str:
        """For example "decode at 1,024", "8 decoding at 512"."""
        if self.kind == "prefill":
            return f"prefill of {self.context:,}"
        return f"{'decode' if self.batch == 1 else f'{self.batch} decoding'} at {self.context:,}"

    @property
    def key(self) -> str:
        """For example "decode_1024", "decode_512_x8"."""
        return f"{self.kind}_{self.context}" + (f"_x{self.batch}" if self.batch > 1 else "")

    @property
    def part(self) -> str:
        """Which part of the benchmark it belongs to: one of PARTS."""
        return "together" if self.batch > 1 else self.kind

    def prompts(self, rng: random.Random, vocab_size: int) -> list[list[int]]:
        """One for each answer, in tokens."""
        return [random_tokens(rng, vocab_size, self.context) for _ in range(self.batch)]

    def tokens_per_second(self, seconds: Sequence[float]) -> float:
        """seconds: of each step, or of each prompt; the median counts."""
        tokens = self.context if self.kind == "prefill" else self.batch
        return tokens / median(seconds)

    def step_bytes(self, weight_bytes: int, kv_bytes_per_token: int) -> int:
        """What a decode step cannot do without reading: the weights once, each answer's KV."""
        return weight_bytes + self.batch * self.context * kv_bytes_per_token


@dataclass(frozen=True, slots=True)
class Effort:
    """repeats: of each load, arms in turn, after one that does not count. steps: of a repeat of
    "decode". starts: of a process, after one that does not count. pause: seconds before each turn,
    in which the other arm's threads stop waiting for more."""

    loads: tuple[Load, ...]
    repeats: int
    steps: int
    starts: int
    pause: float


FULL = Effort(
    (
        *(Load("decode", context) for context in (16, 1024, 4096)),
        *(Load("prefill", context) for context in (128, 512, 2048)),
        *(Load("decode", context, 8) for context in (16, 512)),
    ),
    repeats=5,
    steps=16,
    starts=3,
    pause=0.2,
)
# Fits a context of 512 tokens.
QUICK = Effort(
    (Load("decode", 16), Load("decode", 64), Load("prefill", 96), Load("decode", 24, 3)),
    repeats=2,
    steps=4,
    starts=1,
    pause=0.0,
)
PARTS = ("decode", "prefill", "together", "start")
