"""What a prompt would find now is what it finds; what would not come back is not claimed."""

from __future__ import annotations

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tiers.outlook import outlook
from radixchat.engine.weights import Checkpoint
from radixchat.radix.tiers import Span, Tier
from radixchat.tests.engine.driver import greedy, prompt
from radixchat.tests.engine.tiers.test_tiers import HOST, drive, make, store_for

LENGTH, PAGE = 200, 16


def look(engine: Engine, tokens: list[int]) -> tuple[Span, ...]:
    return outlook(engine.cache, engine.tiers, tokens, b"")


def kept(tiny: Checkpoint, tokens: list[int]) -> MemoryStore:
    """A store that has the prompt's pages, after a first process."""
    store = store_for(tiny)
    engine = make(tiny, store)
    drive(engine, Request(1, tokens.copy(), greedy(1)))
    engine.close()
    return store


def test_without_tiers_it_is_the_pool(tiny: Checkpoint) -> None:
    """Nothing; then all but the last token."""
    engine, tokens = make(tiny), prompt(LENGTH, 1)
    assert look(engine, tokens) == ()
    drive(engine, Request(1, tokens.copy(), greedy(1)))
    assert look(engine, tokens) == (Span(Tier.DEVICE, 0, LENGTH - 1),)
    assert look(engine, []) == ()


@pytest.mark.parametrize("length", [64, 65, 80, 81, 199, 200])
def test_it_is_what_a_request_finds(tiny: Checkpoint, length: int) -> None:
    """From a store, at every kind of length; a look changes nothing."""
    tokens = prompt(LENGTH, 2)
    engine = make(tiny, kept(tiny, tokens))
    spans = look(engine, tokens[:length])
    assert spans == look(engine, tokens[:length])
    usage = drive(engine, Request(2, tokens[:length], greedy(1)))
    assert sum(span.end - span.start for span in spans) == usage.cached_tokens
    assert usage.cached_tokens == usage.disk_tokens


def test_host_memory_before_the_store(tiny: Checkpoint) -> None:
    """Each span is named for the tier that it would come from."""
    tokens, other = prompt(LENGTH, 3), prompt(LENGTH, 4)
    engine = make(tiny, pool_tokens=320, host_cache_bytes=HOST)
    drive(engine, Request(1, tokens.copy(), greedy(1)))
    drive(engine, Request(2, other.copy(), greedy(1)))
    spans = look(engine, tokens)
    usage = drive(engine, Request(3, tokens.copy(), greedy(1)))
    by_tier = {span.tier: span.end - span.start for span in spans}
    assert by_tier[Tier.HOST] == usage.host_tokens > PAGE
    assert by_tier[Tier.DEVICE] == usage.device_tokens > PAGE


def test_a_shut_gate_and_a_short_piece(tiny: Checkpoint) -> None:
    """Neither is claimed."""
    tokens = prompt(LENGTH, 5)
    store = kept(tiny, tokens)
    assert look(make(tiny, store, tier_gate="never"), tokens) == ()
    assert look(make(tiny, store), tokens[:63]) == ()
