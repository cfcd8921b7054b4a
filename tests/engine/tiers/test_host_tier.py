"""`HostTier`: each slot has one owner, whatever happens; who was used least recently makes room."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.tiers.host_tier import EXPECTED_S, HostTier


def name(number: int) -> bytes:
    return b"%16d" % number


def fill(tier: HostTier, number: int, namespace: bytes = b"") -> None:
    row = tier.begin(name(number), namespace)
    assert row is not None
    row[:] = number
    tier.end(name(number), filled=True)


def test_what_was_used_least_recently_makes_room() -> None:
    """It is offered with its name, whose it is, and its bytes, before they are overwritten."""
    tier = HostTier(3, 8)
    left: list[tuple[bytes, bytes, list[int]]] = []
    tier.on_leave = lambda digest, namespace, row: left.append((digest, namespace, row.tolist()))
    for number in range(3):
        fill(tier, number, b"n%d" % number)
    assert tier.get(name(0)) is not None
    fill(tier, 3)
    assert left == [(name(1), b"n1", [1] * 8)]
    assert tier.get(name(1)) is None
    assert tier.digests() == [name(2), name(0), name(3)]
    row = tier.get(name(2))
    assert row is not None
    assert row.tolist() == [2] * 8
    assert tier.num_bytes == 24


def test_what_is_being_read_is_nobodys_yet() -> None:
    """It is not found, takes a slot that nobody is given, and is there or free at its end."""
    tier = HostTier(2, 4)
    assert tier.begin(name(1), b"") is not None
    assert tier.is_filling(name(1))
    assert name(1) not in tier
    assert tier.get(name(1)) is None
    assert tier.begin(name(2), b"") is not None
    assert tier.num_available == 0
    assert tier.begin(name(3), b"") is None
    tier.check()
    tier.end(name(1), filled=True)
    tier.end(name(2), filled=False)
    assert name(1) in tier
    assert name(2) not in tier
    assert len(tier) == 1
    assert tier.num_available == 2


def test_what_is_discarded_is_offered_to_nobody() -> None:
    """A deleted conversation's pages do not go on to the next tier."""
    tier = HostTier(2, 4)
    left: list[bytes] = []
    tier.on_leave = lambda digest, namespace, row: left.append(digest)
    fill(tier, 1, b"a")
    fill(tier, 2, b"b")
    assert tier.digests(b"a") == [name(1)]
    assert tier.namespace(name(2)) == b"b"
    assert tier.discard(name(1))
    assert not tier.discard(name(1))
    fill(tier, 3)
    assert left == []


def test_it_has_a_slot() -> None:
    """None is an error that says so; a page that is here cannot begin again."""
    with pytest.raises(ValueError, match="num_slots is 0; it must be at least 1"):
        HostTier(0, 8)
    tier = HostTier(1, 8)
    fill(tier, 1)
    with pytest.raises(AssertionError):
        tier.begin(name(1), b"")


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_any_sequence_of_calls(slots: int, seed: int) -> None:
    """A model of it in two dictionaries agrees after every call, bytes included."""
    rng = random.Random(seed)
    tier = HostTier(slots, 2)
    here: dict[bytes, int] = {}
    filling: dict[bytes, tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]] = {}
    left: list[bytes] = []
    tier.on_leave = lambda digest, namespace, row: left.append(digest)
    unwanted = set[bytes]()
    for step in range(60):
        digest = name(rng.randrange(8))
        call = rng.choice(("begin", "end", "get", "discard"))
        if call == "begin" and digest not in here and digest not in filling:
            left.clear()
            row = tier.begin(digest, b"")
            full = len(here) + len(filling) == slots
            assert (row is None) == (full and not here)
            assert left == ([next(iter(here))] if full and here else [])
            for gone in left:
                del here[gone]
            if row is not None:
                filling[digest] = (step, row)
        elif call == "end" and digest in filling:
            value, row = filling.pop(digest)
            row[:] = value
            filled = rng.random() < 0.7
            is_here = filled and digest not in unwanted
            unwanted.discard(digest)
            assert tier.end(digest, filled=filled) == is_here
            if is_here:
                here[digest] = value
        elif call == "get":
            found = tier.get(digest)
            assert (found is None) == (digest not in here)
            if found is not None:
                assert found.tolist() == [here[digest]] * 2
                here[digest] = here.pop(digest)
        elif call == "discard":
            assert tier.discard(digest) == (here.pop(digest, None) is not None)
            unwanted |= filling.keys() & {digest}
        tier.check()
        assert tier.digests() == list(here)
        assert tier.num_available == slots - len(filling)


def test_what_is_discarded_while_it_is_read_is_not_there_at_its_end() -> None:
    """Its slot is nobody else's until then; and the page may come again."""
    tier = HostTier(2, 4)
    assert tier.begin(name(1), b"a") is not None
    assert tier.begin(name(2), b"b") is not None
    assert not tier.discard(name(1))
    assert tier.begin(name(3), b"") is None
    tier.check()
    assert not tier.end(name(1), filled=True)
    assert name(1) not in tier
    assert tier.discard_all(b"b") == []
    assert not tier.end(name(2), filled=True)
    fill(tier, 1, b"a")
    fill(tier, 2, b"b")
    assert tier.discard_all(b"a") == [name(1)]
    assert tier.digests() == [name(2)]
    tier.check()


def test_what_is_expected_makes_no_room_for_what_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until somebody has it, or a while has passed; what is read for somebody takes any place."""
    tier = HostTier(3, 4)
    for number in range(3):
        assert tier.begin(name(number), b"") is not None
        tier.expect(name(number))
    assert tier.begin(name(3), b"", yields=True) is None
    for number in range(3):
        tier.end(name(number), filled=True)
        tier.is_had(name(number))
    tier.expect(name(0))
    tier.expect(name(1))
    assert tier.begin(name(3), b"", yields=True) is not None
    tier.end(name(3), filled=True)
    assert set(tier.digests()) == {name(0), name(1), name(3)}
    tier.expect(name(3))
    assert tier.begin(name(4), b"", yields=True) is None
    tier.is_had(name(1))
    assert tier.begin(name(4), b"", yields=True) is not None
    tier.end(name(4), filled=False)
    assert set(tier.digests()) == {name(0), name(3)}
    fill(tier, 5)
    tier.expect(name(5))
    assert tier.begin(name(6), b"") is not None
    tier.end(name(6), filled=True)
    assert len(tier) == 3
    now = time.monotonic() + 2 * EXPECTED_S
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert tier.begin(name(7), b"", yields=True) is not None
    tier.end(name(7), filled=True)
    tier.check()
