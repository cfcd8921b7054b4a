"""A working set of three times the pool, asked for again and again in the same order.

The order in which a pool alone remembers nothing: what is asked for next was evicted last but one.
Prompts go through two engines in turns, one with host memory below its pool. So what a prompt takes
that comes back from there stands beside what it takes to compute it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from radixchat.bench.bench_model import random_tokens
from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.tiers_arm import TierArm, Turn, page_bytes
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.weights import Checkpoint

# Of the working set.
POOL_SHARE, HOST_SHARE = 1 / 3, 4 / 3
# H8: what is found of what an infinite cache finds; with the tier, at least, and without, at most.
FOUND, FOUND_WITHOUT = 0.99, 0.05
# How many times as long computing takes as bringing back, at 1,024 tokens: floor, stretch.
SPEED_UP = (20.0, 100.0)
# Shorter ones leave too much of themselves in a last page that is not whole.
JUDGED_TOKENS = 900


@dataclass(frozen=True, slots=True)
class CycleLoad:
    """prompts: so many, of `tokens` tokens or a few more."""

    prompts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Of the second pass. found, found_without: of what an infinite cache finds, as shares.

    host_ms, computed_ms: medians of the time to the first token. speed_up: the median of their
    ratios, prompt by prompt. same: whether both engines answered alike.
    """

    prompts: int
    tokens: int
    pool_tokens: int
    found: float
    found_without: float
    host_ms: float
    computed_ms: float
    speed_up: float
    same: bool

    def verdicts(self) -> list[Verdict]:
        """H8, and what a hit in host memory is worth; none where the prompts are short."""
        if self.tokens < JUDGED_TOKENS * self.prompts:
            return []
        return [
            Verdict("H8", "found of infinite, second pass", self.found, FOUND, 1.0, True, "%"),
            Verdict("H8", "the same without the tier", self.found_without, FOUND_WITHOUT, 0.0,
                    False, "%"),
            Verdict("3.14", "computing to a hit in memory", self.speed_up, *SPEED_UP, True, "x"),
        ]  # fmt: skip


def cycle(checkpoint: Checkpoint, load: CycleLoad, seed: int) -> Cycle:
    """Two passes over the prompts in both engines."""
    rng = random.Random(seed)
    # Their last pages are filled evenly: a page that is not whole is computed again.
    lengths = [
        load.tokens + 1 + (2 * index + 1) * DEFAULT_PAGE_SIZE // (2 * load.prompts)
        for index in range(load.prompts)
    ]
    total = sum(lengths)
    config = EngineConfig(
        pool_tokens=max(int(total * POOL_SHARE), max(lengths) + DEFAULT_PAGE_SIZE), eviction="lru"
    )
    a_page = page_bytes(checkpoint, config)
    host = int(total * HOST_SHARE) // DEFAULT_PAGE_SIZE * a_page
    with_tier = TierArm(checkpoint, replace(config, host_cache_bytes=host))
    without = TierArm(checkpoint, config)
    prompts = [random_tokens(rng, checkpoint.config.vocab_size, n) for n in lengths]
    passes = [[_both(with_tier, without, p) for p in prompts] for _ in range(2)]
    second = passes[1]
    infinite = sum(length - 1 for length in lengths)
    return Cycle(
        load.prompts,
        total,
        without.engine.plan.pool_tokens,
        sum(ours.usage.cached_tokens for ours, _ in second) / infinite,
        sum(plain.usage.cached_tokens for _, plain in second) / infinite,
        round(median(ours.ttft_ms for ours, _ in second), 2),
        round(median(plain.ttft_ms for _, plain in second), 2),
        round(median(plain.ttft_ms / ours.ttft_ms for ours, plain in second), 2),
        all(ours.tokens == plain.tokens for each in passes for ours, plain in each),
    )


def _both(with_tier: TierArm, without: TierArm, prompt: list[int]) -> tuple[Turn, Turn]:
    return with_tier.answer(prompt, 2), without.answer(prompt, 2)


def cycle_lines(result: Cycle) -> Iterator[str]:
    """What the second pass found."""
    yield (
        f"cycle: {result.prompts} prompts of {result.tokens:,} tokens together, twice, in a pool of"
        f" {result.pool_tokens:,}"
    )
    yield "  second pass        found of infinite   to the first token, ms"
    yield f"  with host memory   {result.found:>17.1%}{result.host_ms:>25,.1f}"
    yield f"  pool alone         {result.found_without:>17.1%}{result.computed_ms:>25,.1f}"
    alike = "the same answers" if result.same else "OTHER ANSWERS"
    yield f"  {result.speed_up:.1f} times as fast, {alike}"
