"""What a store costs that is slower than computing, and what a quick one saves.

Prompts that an engine has left in a store go through engines that have that store below them, and
through one that has nothing, in turns. The slow store takes longer for a page than the model does:
the gate has to see that, and computes. Its control has no gate and always loads. Another store is
quick when it is opened, and slow from then on: what that costs until the gate has learnt it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from radixchat.bench.bench_model import random_tokens
from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.tiers_arm import TierArm, Turn, page_bytes
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.weights import Checkpoint

Gate = Literal["measured", "always"]

DELAY_S = 0.010
# Of a page of one token, 10 ms are more than it takes to compute; of one of 16, less.
SLOW_PAGE_SIZE = 1
# L6: what the worst store may cost, of the time without any; without a gate it has to be more.
COST = (1.05, 1.02)
LEAST_CONTROL = 1.05
# A store that takes no time must be used: computing takes so many times as long.
QUICK = (1.5, 10.0)


@dataclass(frozen=True, slots=True)
class GateLoad:
    """prompts: so many, of `tokens` tokens. judged: whether goals are."""

    prompts: int
    tokens: int
    delay_s: float = DELAY_S
    judged: bool = True


@dataclass(frozen=True, slots=True)
class GateArm:
    """One store, one gate. cost: the median over the prompts of the time to the first token, in
    times of the one without a store; total_cost: of all together. loaded: tokens that came from the
    store, as a share. reason: what was said the last time why no more did."""

    name: str
    page_size: int
    delay_ms: float
    gate: Gate
    ttft_ms: float
    without_ms: float
    cost: float
    total_cost: float
    loaded: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """slow, always, turned: a slow store, the same without a gate, one that has become slow.
    quick, throttled: stores of whole pages, without delay and with it."""

    slow: GateArm
    always: GateArm
    turned: GateArm
    quick: GateArm
    throttled: GateArm
    same: bool
    judged: bool

    @property
    def arms(self) -> tuple[GateArm, ...]:
        """All of them."""
        return self.slow, self.always, self.turned, self.quick, self.throttled

    def verdicts(self) -> list[Verdict]:
        """L6, its control, and that a gate is not merely shut."""
        if not self.judged:
            return []
        worst = max(self.slow.cost, self.throttled.cost)
        return [
            Verdict("L6", "slow store to none, gate measures", worst, *COST, False, "x"),
            Verdict("L6", "the same, always loaded (control)", self.always.cost, LEAST_CONTROL,
                    LEAST_CONTROL, True, "x"),
            Verdict("L6", "none to a quick store", 1 / self.quick.cost, *QUICK, True, "x"),
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """An arm that is to be measured."""

    gate: Gate
    first_delay_s: float
    delay_s: float


def gate(checkpoint: Checkpoint, load: GateLoad, seed: int) -> GateResult:
    """The slow stores in pages of one token, then two in pages of the usual size."""
    rng = random.Random(seed)
    vocab_size = checkpoint.config.vocab_size
    prompts = [random_tokens(rng, vocab_size, load.tokens + 1) for _ in range(load.prompts)]
    delay = load.delay_s
    slow = {
        "slow": _Kind("measured", delay, delay),
        "always": _Kind("always", delay, delay),
        "turned": _Kind("measured", 0.0, delay),
    }
    usual = {
        "quick": _Kind("measured", 0.0, 0.0),
        "throttled": _Kind("measured", delay, delay),
    }
    arms, same = _measure(checkpoint, prompts, SLOW_PAGE_SIZE, slow)
    more, also_same = _measure(checkpoint, prompts, DEFAULT_PAGE_SIZE, usual)
    return GateResult(**arms, **more, same=same and also_same, judged=load.judged)


def _measure(
    checkpoint: Checkpoint, prompts: list[list[int]], page_size: int, kinds: Mapping[str, _Kind]
) -> tuple[dict[str, GateArm], bool]:
    """Every prompt in every arm, in turns; and whether all answered alike."""
    longest = max(map(len, prompts))
    config = EngineConfig(page_size=page_size, pool_tokens=2 * longest * len(prompts))
    pages = _stored(checkpoint, config, prompts)
    without = TierArm(checkpoint, config)
    arms = dict[str, tuple[TierArm, MemoryStore]]()
    for name, kind in kinds.items():
        store = MemoryStore(page_bytes(checkpoint, config), kind.first_delay_s)
        store.pages = pages
        asked = EngineConfig(
            page_size=page_size, pool_tokens=config.pool_tokens, tier_gate=kind.gate
        )
        arms[name] = TierArm(checkpoint, asked, store), store
        store.delay_s = kind.delay_s
    every = {"none": without} | {name: arm for name, (arm, _) in arms.items()}
    turns = {name: list[Turn]() for name in every}
    for number, prompt in enumerate(prompts):
        # Who comes first may find the caches of the processor as another has left them.
        for name in every if number % 2 else reversed(every):
            turns[name].append(every[name].answer(prompt, 2))
    plain = turns.pop("none")
    for arm, _ in arms.values():
        arm.engine.close(0)
    answers = [turn.tokens for turn in plain]
    same = all([turn.tokens for turn in each] == answers for each in turns.values())
    return {
        name: _arm(name, page_size, kind, turns[name], plain) for name, kind in kinds.items()
    }, same


def _stored(
    checkpoint: Checkpoint, config: EngineConfig, prompts: list[list[int]]
) -> dict[bytes, tuple[bytes, bytes]]:
    """The pages of all prompts, as an engine has written them."""
    store = MemoryStore(page_bytes(checkpoint, config))
    arm = TierArm(checkpoint, config, store)
    for prompt in prompts:
        arm.answer(prompt)
    arm.engine.close(600)
    return store.pages


def _arm(name: str, page_size: int, kind: _Kind, turns: list[Turn], plain: list[Turn]) -> GateArm:
    loaded = sum(turn.usage.disk_tokens for turn in turns)
    reasons = [turn.usage.not_restored for turn in turns if turn.usage.not_restored]
    return GateArm(
        name,
        page_size,
        1000 * kind.delay_s,
        kind.gate,
        round(median(turn.ttft_ms for turn in turns), 2),
        round(median(turn.ttft_ms for turn in plain), 2),
        round(median(t.ttft_ms / p.ttft_ms for t, p in zip(turns, plain, strict=True)), 4),
        round(sum(t.ttft_ms for t in turns) / sum(p.ttft_ms for p in plain), 4),
        round(loaded / sum(turn.usage.input_tokens - 1 for turn in turns), 4),
        reasons[-1] if reasons else None,
    )


def gate_lines(result: GateResult) -> Iterator[str]:
    """A line for each store."""
    titles = {
        "slow": "slow",
        "always": "slow, always loaded",
        "turned": "becomes slow",
        "quick": "quick",
        "throttled": "throttled",
    }
    yield "gate: prompts that a store has, with it and without it"
    yield "  store                page  ms a page   first token, ms   without   to without   loaded"
    for arm in result.arms:
        yield (
            f"  {titles[arm.name]:<20}{arm.page_size:>5}{arm.delay_ms:>11.0f}"
            f"{arm.ttft_ms:>18,.1f}{arm.without_ms:>10,.1f}{arm.cost:>11.3f} ×{arm.loaded:>9.0%}"
        )
    if result.slow.reason is not None:
        yield f"  why the slow one is not used: {result.slow.reason}"
    yield f"  {'the same answers' if result.same else 'OTHER ANSWERS'} in all of them"
