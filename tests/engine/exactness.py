"""`Subject`: one model in one arithmetic, whose engines write all they compute into one ledger.

Knows how to read logits and stored K and V out of an engine; the arms that make it compute the
same prefixes in other ways are in `exactness_arms.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from radixchat.engine.batch import RequestResult, ScheduledRequest
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.runner import Runner
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.step_runner import StepRunner
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import Outcome, make_engine, run
from radixchat.tests.engine.ledger import Ledger

LOGITS, STORED = "logits", "K and V"


class RecordingRunner(Runner):
    """A runner that notes the logits after every prefix it computes any for."""

    ledger: Ledger

    @classmethod
    def take_over(cls, runner: StepRunner, ledger: Ledger) -> None:
        """Make a recording one of a runner that is there; another would pack its weights again."""
        assert type(runner) is Runner, "only the CPU's runner can be read"
        runner.__class__ = cls
        assert isinstance(runner, cls)
        runner.ledger = ledger

    def _results(
        self, scheduled: Sequence[ScheduledRequest], logits: Tensor
    ) -> list[RequestResult]:
        end = 0
        for item in scheduled:
            positions = list(item.prompt_positions)
            if item.samples:
                last = len(item.request.tokens) - 1
                positions += range(last, last + 1 + len(item.draft))
            start, end = end, end + len(positions)
            tokens = [*item.request.tokens, *item.draft]
            self.ledger.note(LOGITS, tokens, positions, logits[start:end])
        return super()._results(scheduled, logits)


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint and the settings that choose its arithmetic."""

    checkpoint: Checkpoint
    settings: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def engine(self, **settings: Any) -> Engine:
        """An engine of this arithmetic that notes its logits."""
        engine = make_engine(self.checkpoint, **{**self.settings, **settings})
        RecordingRunner.take_over(engine.runner, self.ledger)
        return engine

    def at_once(self, tokens: Sequence[int]) -> None:
        """Note all there is of these tokens: one request, one chunk, nothing cached."""
        engine = self.engine(max_step_tokens=4 * len(tokens) + 16, max_running=1)
        sampling = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
        steps = engine.scheduler.stats
        outcome = run(engine, [Request(0, list(tokens), sampling)])[0]
        assert steps.steps == 1, "it took more than one chunk"
        assert outcome.usage is not None
        assert outcome.usage.cached_tokens == 0
        self.note_stored(engine, tokens)
        assert self.ledger.knows(LOGITS, tokens[:1]), "the logits of every position are wanted"

    def note_stored(self, engine: Engine, tokens: Sequence[int], namespace: bytes = b"") -> None:
        """Note K and V of a cached prefix as they lie in the engine's pages."""
        for number, part in enumerate(stored(engine, tokens, namespace)):
            self.ledger.note(f"{STORED}, part {number}", tokens, range(len(tokens)), part)


def stored(engine: Engine, tokens: Sequence[int], namespace: bytes = b"") -> list[Tensor]:
    """K, V and for int8 their scales of a cached prefix, each [tokens, layers, kv_heads, ...]."""
    allocation = engine.cache.allocate([*tokens, 0], namespace)
    assert allocation is not None
    try:
        assert allocation.num_cached == len(tokens), "it is not cached"
        page_size, pages = engine.plan.page_size, engine.runner.pages
        pages.copy_slots([(c.source, c.destination, c.num_slots) for c in allocation.copies])
        where = torch.arange(len(tokens))
        table = torch.tensor(allocation.pages)[where // page_size]
        return [
            part.transpose(2, 3)[:, table, where % page_size].transpose(0, 1)
            for part in pages.parts()
        ]
    finally:
        engine.cache.release(allocation)


def cached(outcome: Outcome) -> int:
    """How many tokens of the prompt came from the cache."""
    assert outcome.usage is not None
    return outcome.usage.cached_tokens
