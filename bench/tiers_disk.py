"""What a disk store does to the disk: reads a page, and the quota at every moment.

Both are counted where the process asks the system for it. Prompts that are several times the quota
together go through an engine, so that pages make room for pages; what is left is read by another.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from radixchat.bench.bench_model import random_tokens
from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.tiers_arm import TierArm, page_bytes
from radixchat.bench.tiers_policies import KIND
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.tiers.disk_folder import bytes_on_disk
from radixchat.engine.tiers.disk_format import min_quota
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.weights import Checkpoint

READS, SHARE = ("preadv", "pread", "read"), ("pwrite", "pwritev", "posix_fallocate", "ftruncate")


@dataclass(frozen=True, slots=True)
class DiskLoad:
    """prompts of `tokens` tokens, one after the other; pages: so many fit in the quota's files."""

    prompts: int
    tokens: int
    pages: int


@dataclass(frozen=True, slots=True)
class DiskUse:
    """pages_read, reads: by the second engine, and the calls that it took. most_bytes: of the whole
    folder, at any of so many `looks`."""

    pages_written: int
    pages_kept: int
    pages_read: int
    reads: int
    quota_bytes: int
    most_bytes: int
    looks: int

    @property
    def reads_a_page(self) -> float:
        """Calls of the system."""
        return self.reads / max(1, self.pages_read)

    @property
    def most_of_quota(self) -> float:
        """The largest share of the quota that was ever taken."""
        return self.most_bytes / self.quota_bytes

    def verdicts(self) -> list[Verdict]:
        """Of the issue's fourth line."""
        return [
            Verdict("8.4", "reads per page", self.reads_a_page, 1.0, 1.0, False, ""),
            Verdict("8.4", "most of the quota at any moment", self.most_of_quota, 1.0, 1.0, False,
                    "%"),
        ]  # fmt: skip


class SystemCalls:
    """Counts this process's calls by name while it is entered; after each, `look` is called."""

    def __init__(self, names: tuple[str, ...], look: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._names = [name for name in names if hasattr(os, name)]
        self._look = look
        self._stack = ExitStack()

    def __enter__(self) -> SystemCalls:
        for name in self._names:
            call = getattr(os, name)
            self._stack.callback(setattr, os, name, call)
            setattr(os, name, self._counted(call))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            try:
                return call(*arguments, **named)
            finally:
                self._look()

        return counted


def disk_use(checkpoint: Checkpoint, load: DiskLoad, seed: int) -> DiskUse:
    """Write, watching the folder; then read what is there, counting."""
    rng = random.Random(seed)
    prompts = [
        random_tokens(rng, checkpoint.config.vocab_size, load.tokens) for _ in range(load.prompts)
    ]
    config = EngineConfig(tier_gate="always")
    size = page_bytes(checkpoint, config)
    quota = min_quota(size) + load.pages * (size + 4096)
    sizes = list[int]()
    with tempfile.TemporaryDirectory(prefix="radixchat-bench-") as parent:
        folder = Path(parent) / "kv"

        def look() -> None:
            sizes.append(bytes_on_disk(folder))

        store = DiskStore(folder, KIND, size, quota)
        writer = TierArm(checkpoint, config, store)
        with SystemCalls(SHARE, look):
            for prompt in prompts:
                for _ in range(2):  # the second use has it written
                    writer.answer(prompt)
                    look()
                writer.rest()
            writer.engine.close(0)  # what was asked for last is what is left
            look()
        written = DiskStore(folder, KIND, size, quota)
        kept = written.stats().pages
        written.close()
        store = DiskStore(folder, KIND, size, quota)
        reader = TierArm(checkpoint, config, store)
        before = store.stats().hits
        with SystemCalls(READS) as calls:
            for prompt in reversed(prompts):
                reader.answer(prompt)
        pages_read = store.stats().hits - before
        reader.engine.close(0)
    pages = sum(len(prompt) // DEFAULT_PAGE_SIZE for prompt in prompts)
    return DiskUse(pages, kept, pages_read, calls.count, quota, max(sizes), len(sizes))


def disk_lines(result: DiskUse) -> Iterator[str]:
    """What was asked of the disk."""
    yield (
        f"disk: {result.pages_written} pages, {result.pages_kept} of which the quota has room for;"
        f" {result.pages_read} read"
    )
    yield f"  reads per page      {result.reads_a_page:>8.3f}"
    yield (
        f"  most of the quota   {result.most_of_quota:>8.1%}  of"
        f" {result.quota_bytes / 2**20:,.0f} MiB, in {result.looks:,} looks at the folder"
    )
