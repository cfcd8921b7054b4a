"""When a page goes to the disk: what each write policy writes, and what a restart finds by it.

Conversations grow turn by turn over a disk store; between turns there is time. Then somebody looks
into the folder as it is, which is what a process that is killed leaves, and once more when the
engine was closed.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radixchat.bench.bench_model import random_tokens
from radixchat.bench.tiers_arm import NAMESPACE, TierArm, page_bytes
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.tiers.write_policy import WRITE_POLICIES
from radixchat.engine.weights import Checkpoint
from radixchat.radix.tiers import page_digests

KIND = {"made by": "radixchat bench tiers"}
QUOTA_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class PolicyLoad:
    """Conversations, turn by turn in turns: each turn brings `new` tokens, and `answer` more."""

    conversations: int
    turns: int
    new: int
    answer: int


@dataclass(frozen=True, slots=True)
class PolicyArm:
    """written: pages before the engine was closed, and when it was. killed, closed: of the tokens
    of all conversations, the shares that are in the store then. close_s: what closing took."""

    policy: str
    written: int
    written_closed: int
    killed: float
    closed: float
    close_s: float


@dataclass(frozen=True, slots=True)
class Policies:
    """The same conversations by each policy."""

    tokens: int
    arms: tuple[PolicyArm, ...]


def policies(checkpoint: Checkpoint, load: PolicyLoad, seed: int) -> Policies:
    """One after the other, in folders that go."""
    arms, tokens = [], 0
    for policy in WRITE_POLICIES:
        with tempfile.TemporaryDirectory(prefix="radixchat-bench-") as folder:
            arm, tokens = _run(checkpoint, load, policy, Path(folder) / "kv", seed)
            arms.append(arm)
    return Policies(tokens, tuple(arms))


def _run(
    checkpoint: Checkpoint, load: PolicyLoad, policy: str, folder: Path, seed: int
) -> tuple[PolicyArm, int]:
    rng = random.Random(seed)
    config = EngineConfig(write_policy=policy)
    size = page_bytes(checkpoint, config)
    store = DiskStore(folder, KIND, size, QUOTA_BYTES)
    arm = TierArm(checkpoint, config, store)
    histories = [list[int]() for _ in range(load.conversations)]
    for _ in range(load.turns):
        for history in histories:
            history += random_tokens(rng, checkpoint.config.vocab_size, load.new)
            history += arm.answer(history, load.answer).tokens
            arm.rest()
    paths = [history[:-1] for history in histories]  # the last token was never computed
    whole = sum(len(path) // DEFAULT_PAGE_SIZE * DEFAULT_PAGE_SIZE for path in paths)
    killed = _found(folder, size, paths)
    written = store.stats().written
    began = time.perf_counter()
    arm.engine.close(600)
    seconds = time.perf_counter() - began
    after = _found(folder, size, paths)
    return PolicyArm(
        policy,
        written,
        _pages(folder, size),
        round(killed / whole, 4),
        round(after / whole, 4),
        round(seconds, 3),
    ), whole


def _found(folder: Path, size: int, paths: list[list[int]]) -> int:
    """Tokens of the paths that another process would find there."""
    found = 0
    store = DiskStore(folder, KIND, size, QUOTA_BYTES)
    for path in paths:
        names = list(
            page_digests(NAMESPACE, np.asarray(path, np.int32).tobytes(), DEFAULT_PAGE_SIZE)
        )
        there = [*store.exists(names), False].index(False)
        found += there * DEFAULT_PAGE_SIZE
    store.close()
    return found


def _pages(folder: Path, size: int) -> int:
    store = DiskStore(folder, KIND, size, QUOTA_BYTES)
    pages = store.stats().pages
    store.close()
    return pages


def policy_lines(result: Policies) -> Iterator[str]:
    """What a restart finds."""
    yield f"policies: conversations of {result.tokens:,} tokens together, over a disk store"
    yield "  write policy             pages while it ran, at its end   killed   closed   closing, s"
    for arm in result.arms:
        yield (
            f"  {arm.policy:<24}{arm.written:>19}{arm.written_closed:>12}"
            f"{arm.killed:>9.0%}{arm.closed:>9.0%}{arm.close_s:>13.2f}"
        )
    yield "  killed, closed: of the conversations' whole pages, what a restart finds on the disk"
