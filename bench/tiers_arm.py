"""`TierArm`: an engine under measurement, with or without something below its pool.

Drives one engine by hand, as its thread would: while nothing can move, it sleeps a moment and does
not take a core from those who read. Knows no goal.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.bench.bench_model import greedy, warm_up
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request, Usage
from radixchat.engine.tiers.page_store import PageStore
from radixchat.engine.weights import Checkpoint

# Whose prompts are measured; those of the warm-up are nobody's.
NAMESPACE = b"bench"
# Shorter than any step.
_PAUSE_S = 0.0005


@dataclass(frozen=True, slots=True)
class Turn:
    """One request alone. arrivals: seconds from its submission to each token of its answer."""

    tokens: tuple[int, ...]
    arrivals: tuple[float, ...]
    usage: Usage

    @property
    def ttft_ms(self) -> float:
        """To the first token."""
        return 1000 * self.arrivals[0]

    @property
    def gaps_ms(self) -> tuple[float, ...]:
        """Between its tokens."""
        pairs = zip(self.arrivals, self.arrivals[1:], strict=False)
        return tuple(1000 * (after - before) for before, after in pairs)


class TierArm:
    """store: what is below its pool, besides the memory that the configuration has."""

    def __init__(
        self, checkpoint: Checkpoint, config: EngineConfig, store: PageStore | None = None
    ) -> None:
        make_store = None if store is None else lambda plan, page_bytes: store
        self.engine = Engine(checkpoint, config, make_store=make_store)
        self._requests = 0
        warm_up(self.engine)
        self.engine.flush(b"")

    def answer(self, prompt: Sequence[int], num_tokens: int = 1) -> Turn:
        """Answer one prompt with nobody else; raises the error that it ends with."""
        self._requests += 1
        tokens, arrivals = list[int](), list[float]()
        usage: Usage | None = None
        began = time.perf_counter()
        self.engine.submit(
            Request(self._requests, list(prompt), greedy(num_tokens), namespace=NAMESPACE)
        )
        while self.engine.has_work:
            for event in self.engine.step():
                if event.error is not None:
                    raise event.error
                if event.token is not None:
                    tokens.append(event.token)
                    arrivals.append(time.perf_counter() - began)
                usage = event.usage or usage
            if self.engine.is_still:
                time.sleep(_PAUSE_S)
        assert usage is not None
        return Turn(tuple(tokens), tuple(arrivals), usage)

    def rest(self) -> None:
        """Do what is left to be done when nobody asks, until all of it is done."""
        tiers = self.engine.tiers
        while tiers is not None and tiers.store is not None and not tiers.is_idle:
            self.engine.do_chores()
            time.sleep(_PAUSE_S)


def page_bytes(checkpoint: Checkpoint, config: EngineConfig) -> int:
    """What a store of this engine's pages has a page of."""
    plan = config.resolve(checkpoint.config, checkpoint.weights)
    return plan.page_size * plan.kv_bytes_per_token
