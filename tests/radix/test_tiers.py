"""Tests of the marks of other tiers: which pages, in which order, up to where."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.radix.tiers import DIGEST_BYTES, Span, Tier, TierMarks, page_digests

HOST, DISK, STORE = Tier.HOST, Tier.DISK, Tier.STORE
PATH = array("i", range(11)).tobytes()  # two whole pages of 4, and 3 tokens


def _bytes(*tokens: int) -> bytes:
    return array("i", tokens).tobytes()


def _digests(tokens: bytes, namespace: bytes = b"", page_size: int = 4) -> list[bytes]:
    return list(page_digests(namespace, tokens, page_size))


def _spans(marks: TierMarks, tokens: bytes = PATH, start: int = 0) -> list[tuple[Tier, int, int]]:
    return [(span.tier, span.start, span.end) for span in marks.spans(b"", tokens, start)]


def test_whole_pages_have_names() -> None:
    """One name of 16 bytes a whole page; a page in part has none."""
    assert [len(_digests(_bytes(*range(count)))) for count in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]
    assert {len(digest) for digest in _digests(PATH)} == {DIGEST_BYTES}


def test_name_of_a_page_depends_on_all_before_it() -> None:
    """A longer path has the same names; another token, page size or namespace gives others."""
    digests = _digests(_bytes(*range(12)))
    assert digests[:2] == _digests(PATH)
    assert not set(digests) & set(_digests(_bytes(9, *range(1, 12))))
    last = _digests(_bytes(*range(11), 9))
    assert (last[:2], last[2] != digests[2]) == (digests[:2], True)
    assert not set(digests) & set(_digests(_bytes(*range(12)), b"ann"))
    assert not set(digests) & set(_digests(_bytes(*range(12)), page_size=2))


def test_equal_pages_of_one_path_have_names_of_their_own() -> None:
    """The chain: a page of the same tokens further on is another prefix."""
    digests = _digests(_bytes(*[7] * 16))
    assert len(set(digests)) == 4
    assert all(left != right for left, right in pairwise(digests))


def test_fastest_tier_of_each_page() -> None:
    """Neighbours in one tier are one span; a page in several tiers is in the fastest."""
    marks = TierMarks(2)
    marks.move(b"", PATH, 0, None, STORE)
    assert _spans(marks) == [(STORE, 0, 10)]
    marks.move(b"", PATH[: 4 * 8], 4, None, HOST)
    marks.move(b"", PATH[: 4 * 6], 2, None, DISK)
    assert _spans(marks) == [(STORE, 0, 2), (DISK, 2, 4), (HOST, 4, 8), (STORE, 8, 10)]
    marks.move(b"", PATH[: 4 * 6], 4, HOST, None)
    assert _spans(marks) == [(STORE, 0, 2), (DISK, 2, 6), (HOST, 6, 8), (STORE, 8, 10)]


def test_move_is_one_copy_less_and_one_more() -> None:
    """From host to disk; then gone from the only tier that had it: no mark is left."""
    marks = TierMarks(4)
    marks.move(b"", PATH, 0, Tier.DEVICE, HOST)
    marks.move(b"", PATH, 4, HOST, DISK)
    assert _spans(marks) == [(HOST, 0, 4), (DISK, 4, 8)]
    marks.move(b"", PATH, 0, HOST, None)
    assert (_spans(marks), len(marks)) == ([], 1)
    marks.move(b"", PATH, 0, DISK, None)
    assert len(marks) == 0


def test_device_is_not_marked() -> None:
    """The tree knows what is in the pool: a copy to the device leaves no mark, nor takes one."""
    marks = TierMarks(4)
    marks.move(b"", PATH, 0, None, Tier.DEVICE)
    assert len(marks) == 0
    marks.move(b"", PATH, 0, None, DISK)
    marks.move(b"", PATH, 0, DISK, Tier.DEVICE)
    assert len(marks) == 0
    marks.move(b"", PATH, 0, None, DISK)
    marks.move(b"", PATH, 0, None, Tier.DEVICE)
    assert _spans(marks) == [(DISK, 0, 8)]


@pytest.mark.parametrize(("start", "begin"), [(0, 0), (1, 4), (4, 4), (5, 8), (8, 8)])
def test_only_pages_that_begin_at_the_start_or_later_move(start: int, begin: int) -> None:
    """A page that begins before the start is not meant."""
    marks = TierMarks(4)
    marks.move(b"", PATH, start, None, HOST)
    assert len(marks) == (8 - begin) // 4
    assert _spans(marks, start=begin) == ([(HOST, begin, 8)] if begin < 8 else [])


def test_spans_end_at_a_gap() -> None:
    """What lies beyond a page that is nowhere cannot be used."""
    marks = TierMarks(2)
    marks.move(b"", PATH, 0, None, HOST)
    marks.move(b"", PATH[: 4 * 6], 4, HOST, None)
    assert _spans(marks) == [(HOST, 0, 4)]
    assert _spans(marks, start=6) == [(HOST, 6, 10)]
    assert _spans(marks, start=4) == _spans(marks, start=5) == []


def test_spans_begin_in_mid_page() -> None:
    """The device has a page in part: the rest of it is to be had with the whole page."""
    marks = TierMarks(4)
    marks.move(b"", PATH, 0, None, HOST)
    assert _spans(marks, start=6) == [(HOST, 6, 8)]
    assert _spans(marks, start=8) == []
    assert _spans(marks, _bytes(0, 1, 2, 3, 4, 9)) == [(HOST, 0, 4)]


def test_forget_drops_what_reaches_beyond_the_start() -> None:
    """Of every tier; a page that the start cuts goes too, what lies before stays."""
    marks = TierMarks(2)
    marks.move(b"", PATH, 0, None, HOST)
    marks.move(b"", PATH, 0, None, DISK)
    marks.move(b"ann", PATH, 0, None, DISK)
    marks.forget(b"", PATH, 5)
    assert _spans(marks) == [(HOST, 0, 4)]
    assert len(marks) == 2 + 5
    marks.forget(b"", PATH, 0)
    assert len(marks) == 5
    assert marks.spans(b"ann", PATH, 0) == [Span(DISK, 0, 10)]


def test_namespaces_have_marks_of_their_own() -> None:
    """What one tenant's tier has is nothing to another."""
    marks = TierMarks(4)
    marks.move(b"ann", PATH, 0, None, HOST)
    assert marks.spans(b"bob", PATH, 0) == []
    assert marks.spans(b"", PATH, 0) == []


def test_match_names_the_device_first() -> None:
    """What is in the pool, then what follows it elsewhere; a mark does not make a hit."""
    cache = PrefixCache(16, 4)
    tokens = list(range(30))
    allocation = cache.allocate(tokens[:14])
    assert allocation is not None
    cache.commit(allocation, tokens[:14])
    cache.release(allocation)
    assert cache.match(tokens).spans == (Span(Tier.DEVICE, 0, 14),)
    cache.move(tokens[:28], 0, None, DISK)
    cache.move(tokens[:20], 0, None, HOST)
    match = cache.match(tokens)
    assert match.length == 14
    assert match.spans == (Span(Tier.DEVICE, 0, 14), Span(HOST, 14, 20), Span(DISK, 20, 28))
    assert cache.match(tokens, b"other").spans == ()
    cache.flush()
    assert cache.match(tokens).spans == (Span(HOST, 0, 20), Span(DISK, 20, 28))
    assert cache.match(tokens[:9]).spans == (Span(HOST, 0, 8),)


def test_marks_of_a_purged_conversation_go() -> None:
    """What is deleted is to be had from nowhere; what others hold before it still is."""
    cache = PrefixCache(16, 4)
    tokens = list(range(16))
    cache.move(tokens, 0, None, HOST)
    cache.purge(tokens, "ann", start=8)
    assert cache.match(tokens).spans == (Span(HOST, 0, 8),)
    cache.purge(tokens, "ann")
    assert cache.match(tokens).spans == ()
