"""Tests of namespaces: no choice of parts meets another's (pitfalls T31)."""

from __future__ import annotations

import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.radix.namespace import MIN_SECRET_BYTES, derive_namespace

SECRET = bytes(range(MIN_SECRET_BYTES))

PARTS: tuple[tuple[bytes, ...], ...] = (
    (),
    (b"",),
    (b"", b""),
    (b"ab", b"c"),
    (b"a", b"bc"),
    (b"abc",),
    (b"abc", b""),
    (b"", b"abc"),
    (b"a", b"b", b"c"),
    (b"c", b"ab"),
    (b"salt", b"adapter"),
    (b"adapter", b"salt"),
    (b"saltadapter",),
    (b"salt",),
    (b"a\x00", b"b"),
    (b"a", b"\x00b"),
    ((1).to_bytes(8, "big") + b"a",),  # what another's length and text look like
    (b"a" + (1).to_bytes(8, "big") + b"b",),
)


def test_other_parts_are_another_namespace() -> None:
    """Neither moved borders, nor order, nor empty parts, nor text that looks like a length meet."""
    assert len({derive_namespace(SECRET, *parts) for parts in PARTS}) == len(set(PARTS))


def test_namespace_is_reproducible() -> None:
    """Equal parts and secret give the same 32 bytes, today and in the next release."""
    name = derive_namespace(SECRET, b"model", b"ann")
    assert name == derive_namespace(SECRET, b"model", b"ann")
    assert len(name) == 32
    assert name.hex() == "1b409453beec49f0df5f9cf4602afc62b0a144befe15ce4a8dcfba5f77bcc1c7"


def test_other_secret_is_another_namespace() -> None:
    """Who does not know the secret cannot name a root."""
    assert derive_namespace(SECRET, b"ann") != derive_namespace(SECRET[::-1], b"ann")


@pytest.mark.parametrize("length", [0, 1, MIN_SECRET_BYTES - 1])
def test_short_secret_is_refused(length: int) -> None:
    """A secret that could be guessed by its length is a wrong setting."""
    with pytest.raises(ValueError, match=f"has {length} bytes; it must have at least 16"):
        derive_namespace(b"x" * length, b"ann")


def test_tenants_share_no_token() -> None:
    """The same prompt under names whose parts are cut elsewhere: nothing is found."""
    cache = PrefixCache(64, 4)
    names = [derive_namespace(SECRET, *parts) for parts in PARTS]
    for name in names:
        allocation = cache.allocate([1, 2, 3, 4, 5, 6], name)
        assert allocation is not None
        assert allocation.num_cached == 0
        cache.commit(allocation, [1, 2, 3, 4, 5, 6])
        cache.release(allocation)
    assert cache.num_cached_tokens == 6 * len(PARTS)
    assert [cache.match([1, 2, 3, 4, 5, 6], name).length for name in names] == [6] * len(PARTS)
    cache.check()
