"""One arm of `bench kv`: what a KV format makes of given text, and how many sessions it holds.

Knows no table and no goal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.bench_model import greedy, random_tokens
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True, eq=False)
class KVArm:
    """kv: the plan's format. bytes_per_token: in all layers, scales included. losses: fp64, of each
    predicted token minus its natural log-probability. sessions: so many fit the pool at once."""

    kv: str
    bytes_per_token: int
    losses: NDArray[np.float64]
    sessions: int

    @property
    def perplexity(self) -> float:
        """exp of the mean loss."""
        return float(np.exp(self.losses.mean()))


@dataclass(frozen=True, slots=True)
class SessionLoad:
    """A pool of `pool_bytes`, filled by sessions of `tokens` tokens, one after another."""

    pool_bytes: int
    tokens: int


def run_arm(
    checkpoint: Checkpoint, config: EngineConfig, texts: Sequence[Sequence[int]], load: SessionLoad
) -> KVArm:
    """Read the texts, then fill the pool. Raises RadixChatError where they do not fit."""
    engine = Engine(checkpoint, replace(config, prefix_cache=False))
    losses = np.array([loss for text in texts for loss in _losses(engine, text)])
    per_token = engine.plan.kv_bytes_per_token
    pool = replace(config, pool_tokens=load.pool_bytes // per_token)
    return KVArm(
        engine.plan.kv, per_token, losses, _sessions(Engine(checkpoint, pool), load.tokens)
    )


def _losses(engine: Engine, text: Sequence[int]) -> Iterator[float]:
    """Of each token but the first: in chunks, each of which reads what the pool has kept."""
    sampling = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    engine.submit(Request(0, list(text), sampling))
    while engine.has_work:
        for event in engine.step():
            if event.error is not None:
                raise event.error
            for logprob in event.prompt_logprobs or ():
                yield -logprob.logprob


def _sessions(engine: Engine, num_tokens: int) -> int:
    """How many prompts were computed, each found whole, before the first was lost."""
    rng = random.Random(0)
    prompts: list[list[int]] = []
    while all(engine.cache.match(prompt).length == num_tokens for prompt in prompts):
        prompts.append(random_tokens(rng, engine.plan.vocab_size, num_tokens))
        number = len(prompts)
        engine.submit(Request(number, list(prompts[-1]), greedy(1), conversation=str(number)))
        while engine.has_work:
            for event in engine.step():
                if event.error is not None:
                    raise event.error
    return len(prompts) - 1
