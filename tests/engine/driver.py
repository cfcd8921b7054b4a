"""Drives an Engine by hand and checks its cache after every step. Knows no thread and no text."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import FinishReason, Request, Usage
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.tiers.open_tiers import MakeStore
from radixchat.engine.weights import Checkpoint

GREEDY = SamplingParams(temperature=0, max_tokens=12)


@dataclass(slots=True)
class Outcome:
    """What one request came to."""

    tokens: list[int] = field(default_factory=list)
    finish: FinishReason | None = None
    usage: Usage | None = None


def run(
    engine: Engine,
    requests: Iterable[Request],
    *,
    before_step: Callable[[int], None] = lambda step: None,
    max_steps: int = 5_000,
) -> dict[int, Outcome]:
    """Submit all requests, step until nothing is left, and hold each event to its contract."""
    outcomes: defaultdict[int, Outcome] = defaultdict(Outcome)
    for request in requests:
        engine.submit(request)
    for step in range(max_steps):
        if not engine.has_work:
            return outcomes
        before_step(step)
        for event in engine.step():
            outcome = outcomes[event.request_id]
            assert outcome.finish is None, "an event after the last one"
            if event.token is not None:
                outcome.tokens.append(event.token)
            assert (event.finish is None) == (event.usage is None)
            outcome.finish, outcome.usage = event.finish, event.usage
        engine.cache.check()
    raise AssertionError(f"not done after {max_steps} steps")


def answer(
    engine: Engine, tokens: Sequence[int], sampling: SamplingParams = GREEDY, seed: int = 0
) -> Outcome:
    """One request, alone."""
    return run(engine, [Request(0, list(tokens), replace(sampling, seed=seed))])[0]


def stored_kv(engine: Engine, tokens: Sequence[int]) -> Tensor:
    """K and V of a cached prefix, [layers, 2, tokens, kv_heads, dim], read through its pages."""
    allocation = engine.cache.allocate([*tokens, 0])
    assert allocation is not None
    try:
        assert allocation.num_cached == len(tokens)
        page_size = engine.plan.page_size
        pages = engine.runner.pages
        pages.copy_slots([(c.source, c.destination, c.num_slots) for c in allocation.copies])
        where = torch.arange(len(tokens))
        table = torch.tensor(allocation.pages)[where // page_size]
        parts = [t.transpose(2, 3)[:, table, where % page_size] for t in (pages.k, pages.v)]
        return torch.stack(parts, dim=1)
    finally:
        engine.cache.release(allocation)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    length = min(len(left), len(right))
    equal = np.asarray(left[:length]) == np.asarray(right[:length])
    return int(length if equal.all() else equal.argmin())


def prompt(length: int, seed: int = 0) -> list[int]:
    """Random tokens, the same for the same seed; of two lengths one begins with the other."""
    return random.Random(seed).choices(range(250), k=length)


def greedy(max_tokens: int) -> SamplingParams:
    """An answer of at most so many tokens, the same ones whenever it is asked for."""
    return SamplingParams(temperature=0, max_tokens=max_tokens)


def make_engine(
    checkpoint: Checkpoint,
    *,
    clock: Callable[[], float] = time.monotonic,
    make_store: MakeStore | None = None,
    **settings: Any,
) -> Engine:
    """An engine on one thread, so that tests side by side do not compete."""
    config = EngineConfig(**{"threads": 1, **settings})
    return Engine(checkpoint, config, clock=clock, make_store=make_store)
