"""What a foreground request notices of pages that are written and read meanwhile.

Two engines answer the same questions in turns, each question after a long text that both have in
their pools. One has a disk store below: at each question the text is to be written again, another
text is read, and what the pool evicts is copied to memory. The other has nothing.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from radixchat.bench.bench_model import random_tokens
from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.percentiles import Percentiles
from radixchat.bench.tiers_arm import NAMESPACE, TierArm, Turn, page_bytes
from radixchat.bench.tiers_policies import KIND, QUOTA_BYTES
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.hint import Prefetch
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.weights import Checkpoint

# Foreground requests are not to be delayed by more, at p95.
DELAY = (1.05, 1.0)
# Fewer gaps tell nothing of the slowest twentieth.
JUDGED_GAPS = 300
# Texts to be read, so many that the memory before the store has forgotten each when it is due.
TEXTS = 5
# Long enough for all that is read and written for one question.
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class BackgroundLoad:
    """rounds: a question of `question` tokens each, with an answer of `answer`; text: of the text
    before them, and of each that is read, in tokens."""

    rounds: int
    text: int
    question: int
    answer: int


@dataclass(frozen=True, slots=True)
class BackgroundArm:
    """Milliseconds: to the first token, and between tokens."""

    name: str
    ttft_ms: Percentiles
    gaps_ms: Percentiles


@dataclass(frozen=True, slots=True)
class Background:
    """read, written: pages while questions were answered and just after. gap_cost, ttft_cost: of
    the p95, with I/O to without."""

    with_io: BackgroundArm
    without: BackgroundArm
    read: int
    written: int
    gap_cost: float
    ttft_cost: float
    same: bool

    def verdicts(self) -> list[Verdict]:
        """Of the issue's fourth line; none where there are too few gaps."""
        if self.with_io.gaps_ms.n < JUDGED_GAPS:
            return []
        return [
            Verdict("8.4", "p95 of gaps, beside tier I/O", self.gap_cost, *DELAY, False, "x"),
            Verdict("8.4", "p95 to the first token, beside it", self.ttft_cost, *DELAY, False, "x"),
        ]


def background(checkpoint: Checkpoint, load: BackgroundLoad, seed: int) -> Background:
    """Fill the store, then ask both engines in turns."""
    rng = random.Random(seed)
    vocab_size = checkpoint.config.vocab_size
    text = random_tokens(rng, vocab_size, load.text)
    others = [random_tokens(rng, vocab_size, load.text) for _ in range(TEXTS)]
    questions = [random_tokens(rng, vocab_size, load.question) for _ in range(load.rounds)]
    # Room for the text and for some questions; the others are evicted while one is answered.
    room = load.text + 4 * (load.question + load.answer + DEFAULT_PAGE_SIZE)
    config = EngineConfig(pool_tokens=room, eviction="lru")
    size = page_bytes(checkpoint, config)
    with tempfile.TemporaryDirectory(prefix="radixchat-bench-") as folder:
        place = Path(folder) / "kv"
        filler = TierArm(checkpoint, config, DiskStore(place, KIND, size, QUOTA_BYTES))
        for other in others:
            filler.answer(other)
        filler.engine.close(600)
        store = DiskStore(place, KIND, size, QUOTA_BYTES)
        busy = TierArm(checkpoint, replace(config, tier_gate="always"), store)
        calm = TierArm(checkpoint, config)
        for arm in (busy, calm):
            arm.answer(text)
        before = store.stats()
        turns: dict[str, list[Turn]] = {"with": [], "without": []}
        for number, question in enumerate(questions):
            other = others[number % TEXTS]
            for name in ("with", "without") if number % 2 else ("without", "with"):
                prompt = [*text, *question]
                if name == "with":
                    turns[name].append(_beside(busy, text, other, prompt, load.answer))
                else:
                    turns[name].append(calm.answer(prompt, load.answer))
                # Who has just rested is given more of a busy machine: both rest as long.
                busy.rest()
                time.sleep(PAUSE_S)
        after = store.stats()
        busy.engine.close(0)
    arms = {name: _arm(name, each) for name, each in turns.items()}
    return Background(
        arms["with"],
        arms["without"],
        after.hits - before.hits,
        after.written - before.written,
        round(arms["with"].gaps_ms.p95 / arms["without"].gaps_ms.p95, 4),
        round(arms["with"].ttft_ms.p95 / arms["without"].ttft_ms.p95, 4),
        [turn.tokens for turn in turns["with"]] == [turn.tokens for turn in turns["without"]],
    )


def _beside(
    arm: TierArm, text: list[int], other: list[int], prompt: list[int], answer: int
) -> Turn:
    """Answer while the text is written, as after its second use, and another is read."""
    tiers = arm.engine.tiers
    assert tiers is not None
    tiers.forget(text, NAMESPACE, 0)
    arm.engine.hint(Prefetch(tuple(other), NAMESPACE))
    return arm.answer(prompt, answer)


def _arm(name: str, turns: list[Turn]) -> BackgroundArm:
    gaps = [gap for turn in turns for gap in turn.gaps_ms]
    return BackgroundArm(name, Percentiles.of([t.ttft_ms for t in turns]), Percentiles.of(gaps))


def background_lines(result: Background) -> Iterator[str]:
    """Both arms, and their ratio."""
    yield (
        f"background: {result.with_io.ttft_ms.n} questions while {result.read:,} pages are read and"
        f" {result.written:,} written"
    )
    yield "  tier I/O    between tokens, ms: p50     p95     p99    first token, ms: p50     p95"
    for arm in (result.with_io, result.without):
        yield (
            f"  {arm.name:<10}{arm.gaps_ms.p50:>25.1f}{arm.gaps_ms.p95:>8.1f}"
            f"{arm.gaps_ms.p99:>8.1f}{arm.ttft_ms.p50:>24.1f}{arm.ttft_ms.p95:>8.1f}"
        )
    alike = "the same answers" if result.same else "OTHER ANSWERS"
    yield (
        f"  p95 with to without: {result.gap_cost:.3f} of the gaps, {result.ttft_cost:.3f} of the"
        f" first tokens; {alike}"
    )
