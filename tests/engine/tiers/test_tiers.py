"""Pages that leave the pool come back, bit for bit, if that is quicker; each is counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.hint import Prefetch, Purge
from radixchat.engine.request import FinishReason, Request, Usage
from radixchat.engine.tiers import tiers as tiers_module
from radixchat.engine.tiers.host_tier import HostTier
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tiers.page_store import StoredPage
from radixchat.engine.weights import Checkpoint
from radixchat.radix.cache import PrefixCache
from radixchat.tests.engine.driver import answer, greedy, prompt, run

POOL, LENGTH, COUNT = 512, 200, 6  # tokens; the prompts together are 2.4 times the pool
HOST = 8 << 20


def make(tiny: Checkpoint, store: MemoryStore | None = None, **config: Any) -> Engine:
    """An engine whose gate is open, but for what is asked otherwise."""
    values: dict[str, Any] = {"pool_tokens": POOL, "threads": 1, "eviction": "lru"}
    values |= {"tier_gate": "always", **config}
    make_store = None if store is None else lambda plan, page_bytes: store
    return Engine(tiny, EngineConfig(**values), make_store=make_store)


def store_for(tiny: Checkpoint, delay_s: float = 0.0) -> MemoryStore:
    engine = make(tiny, host_cache_bytes=HOST)
    assert engine.tiers is not None
    return MemoryStore(engine.tiers.host.page_bytes, delay_s)


def drive(engine: Engine, request: Request) -> Usage:
    """Run it to its end, waiting for what is read for it."""
    engine.submit(request)
    deadline = time.monotonic() + 30
    while engine.has_work:
        assert time.monotonic() < deadline
        for event in engine.step():
            if event.usage is not None:
                usage = event.usage
        engine.cache.check()
        if engine.tiers is not None:
            engine.tiers.host.check()
    parts = usage.device_tokens, usage.host_tokens, usage.disk_tokens, usage.store_tokens
    assert min(parts) >= 0
    assert sum(parts) + usage.computed_tokens == usage.input_tokens
    return usage


def until(engine: Engine, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        engine.do_chores()


@pytest.mark.parametrize("page_size", [4, 16])
def test_a_cyclic_working_set_is_had_from_host_memory(tiny: Checkpoint, page_size: int) -> None:
    """The second round computes almost nothing; without the tier all of it."""
    prompts = [prompt(LENGTH, seed) for seed in range(COUNT)]
    computed = {}
    for host in (HOST, 0):
        engine = make(tiny, page_size=page_size, host_cache_bytes=host)
        for number, tokens in enumerate(prompts):
            drive(engine, Request(number, tokens.copy(), greedy(1)))
        usages = [
            drive(engine, Request(100 + n, tokens.copy(), greedy(1)))
            for n, tokens in enumerate(prompts)
        ]
        computed[host] = sum(usage.computed_tokens for usage in usages)
    assert computed[HOST] <= COUNT * page_size
    assert computed[0] >= COUNT * (LENGTH - 1)


@pytest.mark.parametrize("kv", ["auto", "int8"])
def test_what_comes_back_are_the_bits_that_left(tiny: Checkpoint, kv: str) -> None:
    """Answers and stored K/V equal those of an engine that never lost anything."""
    engine = make(tiny, host_cache_bytes=HOST, kv=kv)
    large = make(tiny, pool_tokens=4096, kv=kv)
    for number in range(COUNT):
        tokens = prompt(LENGTH, number)
        expected = answer(large, tokens, greedy(20)).tokens
        assert run(engine, [Request(number, tokens.copy(), greedy(20))])[number].tokens == expected
    for number in range(COUNT):
        tokens = [*prompt(LENGTH, number), *prompt(9, 77)]
        request = Request(100 + number, tokens.copy(), greedy(20))
        engine.submit(request)
        engine.step()
        assert request.restored
        allocation = request.allocation
        assert allocation is not None
        assert isinstance(large.cache, PrefixCache)
        other = large.cache.whole_pages(tokens)
        for index, page in enumerate(other[: LENGTH // 16]):
            for ours, theirs in zip(
                engine.runner.pages.parts(), large.runner.pages.parts(), strict=True
            ):
                assert torch.equal(ours[:, allocation.pages[index]], theirs[:, page])
        run(engine, [])
        assert request.tokens[len(tokens) :] == answer(large, tokens, greedy(20)).tokens


def test_a_restart_is_warm(tiny: Checkpoint) -> None:
    """What an engine had when it was closed, another finds in the store; the same answer."""
    store = store_for(tiny)
    engine = make(tiny, store)
    tokens = prompt(LENGTH, 1)
    expected = answer(engine, tokens, greedy(10)).tokens
    engine.close()
    assert len(store.pages) >= LENGTH // 16
    again = make(tiny, store)
    request = Request(5, [*tokens, *expected, *prompt(5, 9)], greedy(4))
    usage = drive(again, request)
    assert usage.disk_tokens >= LENGTH - LENGTH % 16
    assert usage.device_tokens == usage.host_tokens == 0
    cold = answer(make(tiny), [*tokens, *expected, *prompt(5, 9)], greedy(4))
    assert request.tokens[request.num_prompt :] == cold.tokens
    assert again.tiers is not None
    assert again.tiers.stats.used_pages == again.tiers.stats.read_pages


def test_what_is_used_again_is_written_meanwhile(tiny: Checkpoint) -> None:
    """The second hit makes a page worth it: the store has it although nothing was evicted."""
    store = store_for(tiny)
    engine = make(tiny, store)
    tokens = prompt(LENGTH, 1)
    drive(engine, Request(1, tokens.copy(), greedy(1)))
    assert not store.pages
    drive(engine, Request(2, [*tokens, 5], greedy(1)))
    until(engine, lambda: len(store.pages) >= LENGTH // 16)
    lazy = store_for(tiny)
    engine = make(tiny, lazy, write_policy="write_back")
    for number in range(3):
        drive(engine, Request(number, [*tokens, number], greedy(1)))
    assert not engine.has_chores
    assert not lazy.pages


def test_a_slow_store_loses(tiny: Checkpoint) -> None:
    """Once it is known to be slower than computing, nothing waits for it; the reason is told."""
    store = store_for(tiny)
    engine = make(tiny, store)
    for seed in range(4):
        answer(engine, prompt(LENGTH, seed), greedy(1))
    engine.close()
    store.delay_s = 0.05
    slow = make(tiny, store, tier_gate="measured")
    usages = [drive(slow, Request(n, prompt(LENGTH, n), greedy(1))) for n in range(4)]
    assert sum(usage.disk_tokens for usage in usages) <= 16
    assert any("computing" in (usage.not_restored or "") for usage in usages)
    store.delay_s = 0.0
    quick = make(tiny, store, tier_gate="always")
    assert drive(quick, Request(9, prompt(LENGTH, 0), greedy(1))).disk_tokens > 0


def test_nothing_of_a_deleted_conversation_is_left(tiny: Checkpoint) -> None:
    """Not in the pool, not in memory, not in the store, nor on its way there."""
    store = store_for(tiny)
    engine = make(tiny, store, host_cache_bytes=HOST)
    tokens = prompt(LENGTH, 1)
    for number in range(2):
        request = Request(number, tokens.copy(), greedy(1), conversation="c")
        drive(engine, request)
    for seed in range(2, 6):
        drive(engine, Request(seed, prompt(LENGTH, seed), greedy(1)))
    engine.purge(Purge(tuple(tokens), "c"))
    engine.close()
    assert engine.tiers is not None
    others = make(tiny, store)
    usage = drive(others, Request(7, tokens.copy(), greedy(1)))
    assert usage.computed_tokens == LENGTH
    assert store.pages, "those of the others are there"


def test_others_go_on_while_pages_are_read(tiny: Checkpoint) -> None:
    """One that waits for a slow store is overtaken, and has its pages at last; or is cancelled."""
    store = store_for(tiny)
    engine = make(tiny, store)
    answer(engine, prompt(LENGTH, 1), greedy(1))
    engine.close()
    store.delay_s = 0.02
    engine = make(tiny, store)
    assert engine.tiers is not None
    engine.tiers.gate.computed(100, 100)  # computing is slow, so that it is waited for
    waiting = Request(1, prompt(LENGTH, 1), greedy(1))
    engine.submit(waiting)
    other = Request(2, prompt(20, 2), greedy(5))
    events = run(engine, [other], max_steps=10_000_000)
    assert events[2].finish is FinishReason.LENGTH
    assert waiting.restored
    answer(engine, prompt(POOL - 20, 8), greedy(1))
    cancelled = Request(3, prompt(LENGTH, 1), greedy(1))
    engine.submit(cancelled)
    engine.cancel(3)
    assert run(engine, [])[3].finish is FinishReason.CANCELLED
    engine.close()
    engine.tiers.host.check()


def test_a_prompt_that_is_expected_is_read_ahead(tiny: Checkpoint) -> None:
    """A hint has the pages in memory before the request, which counts them as the store's, once."""
    store = store_for(tiny)
    engine = make(tiny, store)
    tokens = prompt(LENGTH, 1)
    answer(engine, tokens, greedy(1))
    engine.close()
    engine = make(tiny, store)
    engine.hint(Prefetch(tuple(tokens)))
    assert engine.tiers is not None
    host = engine.tiers.host
    until(engine, lambda: len(host) >= LENGTH // 16)
    assert drive(engine, Request(1, tokens.copy(), greedy(1))).disk_tokens >= LENGTH - 16
    answer(engine, prompt(POOL - 20, 8), greedy(1))
    usage = drive(engine, Request(2, tokens.copy(), greedy(1)))
    assert (usage.disk_tokens, usage.host_tokens > 0) == (0, True)


def test_what_others_may_not_have(tiny: Checkpoint) -> None:
    """Another namespace finds nothing of it in any tier."""
    store = store_for(tiny)
    engine = make(tiny, store, host_cache_bytes=HOST)
    tokens = prompt(LENGTH, 1)
    drive(engine, Request(1, tokens.copy(), greedy(1), namespace=b"a"))
    for seed in range(2, 6):
        drive(engine, Request(seed, prompt(LENGTH, seed), greedy(1), namespace=b"a"))
    assert drive(engine, Request(7, tokens.copy(), greedy(1), namespace=b"b")).cached_tokens == 0
    engine.flush(b"a")
    assert drive(engine, Request(8, tokens.copy(), greedy(1), namespace=b"a")).cached_tokens == 0


def kept(tiny: Checkpoint, *seeds: int, length: int = LENGTH) -> MemoryStore:
    """A store that has these prompts."""
    store = store_for(tiny)
    engine = make(tiny, store)
    for seed in seeds:
        answer(engine, prompt(length, seed), greedy(1))
    engine.close()
    return store


@pytest.mark.parametrize("everything", [False, True])
def test_what_is_deleted_while_it_is_read_is_nowhere(tiny: Checkpoint, everything: bool) -> None:
    """Neither in memory when the read has ended, nor in the store when the engine is closed."""
    store = kept(tiny, 1)
    store.delay_s = 0.01
    engine = make(tiny, store, host_cache_bytes=HOST)
    tokens = prompt(LENGTH, 1)
    engine.hint(Prefetch(tuple(tokens)))
    tiers = engine.tiers
    assert tiers is not None
    assert not tiers.is_idle
    if everything:
        engine.flush(None)
    else:
        engine.purge(Purge(tuple(tokens), "c"))
    until(engine, lambda: tiers.is_idle)
    assert len(tiers.host) == 0
    tiers.host.check()
    engine.close()
    assert not store.pages


def test_answers_do_not_tell_what_a_prompt_takes(tiny: Checkpoint) -> None:
    """A step of many that are talking computes many tokens, each for far more."""
    engine = make(tiny, host_cache_bytes=HOST)
    tiers = engine.tiers
    assert tiers is not None
    tiers.after_step([100], 0.01)
    assert tiers.gate.prefill_us == pytest.approx(100)
    tiers.after_step([1] * 64, 0.064)
    tiers.after_step([*[1] * 64, 30], 0.064)
    assert tiers.gate.prefill_us == pytest.approx(100)
    tiers.after_step([1, 1, 98], 0.02)
    assert tiers.gate.prefill_us == pytest.approx(125)


def test_a_gate_that_refuses_memory_says_why(tiny: Checkpoint) -> None:
    """What was in host memory and is computed again has a reason."""
    engine = make(tiny, host_cache_bytes=HOST, tier_gate="never")
    for seed in range(COUNT):
        drive(engine, Request(seed, prompt(LENGTH, seed), greedy(1)))
    usage = drive(engine, Request(100, prompt(LENGTH, 0), greedy(1)))
    assert (usage.host_tokens, usage.not_restored) == (0, "the gate is shut")


def test_what_comes_too_late_has_a_reason(tiny: Checkpoint) -> None:
    """A store that hangs is not waited for, and the answer says what was not waited for."""
    store = kept(tiny, 1)
    store.delay_s = 0.5
    engine = make(tiny, store, tier_gate="measured")
    assert engine.tiers is not None
    usage = drive(engine, Request(1, prompt(LENGTH, 1), greedy(1)))
    assert usage.disk_tokens == 0
    assert usage.not_restored is not None


class BrokenStore(MemoryStore):
    """One with a bug."""

    def get(
        self,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None = None,
    ) -> int:
        """PageStore.get."""
        raise RuntimeError("a bug")

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """PageStore.put."""
        raise RuntimeError("a bug")


def test_a_bug_in_a_store_ends_no_answer(
    tiny: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; what was to be read is computed, and what was to be written is not there."""
    good = kept(tiny, 1)
    store = BrokenStore(good.page_bytes)
    store.pages = good.pages
    tokens = prompt(LENGTH, 1)
    expected = answer(make(tiny), tokens, greedy(5)).tokens
    # One page is read to calibrate, on the thread that makes the engine.
    store.get = good.get  # type: ignore[method-assign]  # until the engine is there
    engine = make(tiny, store)
    del store.get
    request = Request(1, tokens.copy(), greedy(5))
    with caplog.at_level(logging.ERROR):
        assert drive(engine, request).computed_tokens == LENGTH
        assert request.tokens[LENGTH:] == expected
        engine.close()
    assert "failed to read" in caplog.text
    assert "a bug" in caplog.text


def test_paths_that_wait_for_a_store_are_bounded(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a prefix is asked for while nothing can be written."""
    monkeypatch.setattr(tiers_module, "MAX_PATHS", 4)
    engine = make(tiny, store_for(tiny))
    tiers = engine.tiers
    assert tiers is not None
    for _ in range(10):
        tiers.reused(prompt(LENGTH, 1), b"", LENGTH)
    assert engine.has_chores
    assert len(tiers._paths) == 4


@pytest.mark.parametrize("slots", [13, 16, 40])
def test_what_leaves_a_full_pool_does_not_displace_what_is_waited_for(
    tiny: Checkpoint, slots: int
) -> None:
    """Pages that are read for a request are there when others have made room for it."""
    store = kept(tiny, 1)
    engine = make(tiny, store)
    tiers = engine.tiers
    assert tiers is not None
    tiers.host = HostTier(slots, store.page_bytes)
    tiers.host.on_leave = tiers._leave_host
    tiers.attach(tiers._cache)
    for seed in range(5, 9):
        drive(engine, Request(seed, prompt(LENGTH, seed), greedy(1)))
    assert drive(engine, Request(1, prompt(LENGTH, 1), greedy(1))).disk_tokens >= LENGTH - 16
    engine.close()
    again = make(tiny, store)
    for seed in range(5, 9):  # nothing of the others was lost on the way
        assert drive(again, Request(seed, prompt(LENGTH, seed), greedy(1))).disk_tokens > 100


def test_a_prompts_own_pages_make_no_room_for_its_others(tiny: Checkpoint) -> None:
    """Of one that is longer than memory is, what fits comes back, from its beginning."""
    store = kept(tiny, 1, length=400)
    engine = make(tiny, store)
    tiers = engine.tiers
    assert tiers is not None
    small = HostTier(16, store.page_bytes)
    tiers.host = small
    tiers.attach(tiers._cache)
    tokens = prompt(400, 1)
    for length in (160, 400):  # the second finds ten pages of it in memory
        engine.hint(Prefetch(tuple(tokens[:length])))
        until(engine, lambda: tiers.is_idle)
    assert len(small) == 16
    assert drive(engine, Request(1, tokens, greedy(1))).cached_tokens >= 160
