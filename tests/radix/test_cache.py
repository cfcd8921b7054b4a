"""Tests of `PrefixCache` and `UncachedPages` by worked examples.

The story that the first test tells, page size 4; letters are tokens, digits are pages:

    1. Ann computes a b c d e f g h i        0[a b c d] 1[e f g h] 2[i . . .]
       and commits: one node [0, 9) with the pages 0 1 2. She is done.

    2. Bob asks for a b c d e f x y z: 6 of 9 tokens are cached, page 1 in part.
                                             0[a b c d] 3[. . . .] 4[. . . .]
       The node is split at 6, in mid-page: [0, 6) has the pages 0 1, [6, 9) has 1 2, so page 1
       has two references. Bob locks [0, 6) and asks for a copy of 2 slots, page 1 to page 3.

    3. Bob's engine copies, computes x y z   0[a b c d] 3[e f x y] 4[z . . .]
       and commits: a node [6, 9) with the pages 3 4 beside Ann's, below [0, 6). Page 3 begins
       with e f, which belong to the parent: the page of a node holds all tokens of its path.

    4. Cid asks for a b c d e f x q: 7 cached, through two nodes that both touch page index 1.
       Bob's node is split at 7; the copy comes from page 3, the deeper one, because page 1
       does not have x.

    5. Everybody leaves and Ann's tail is evicted; [0, 6) has one child and they merge. Of the
       two pages at index 1 the deeper one, 3, stays; page 1 becomes free.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixchat.radix.allocation import Allocation, PageCache, PageCopy, Tokens
from radixchat.radix.cache import PrefixCache
from radixchat.radix.uncached import UncachedPages
from radixchat.tests.radix.simulation import Simulation


def _allocate(cache: PageCache, tokens: Tokens, namespace: bytes = b"") -> Allocation:
    allocation = cache.allocate(tokens, namespace)
    assert allocation is not None
    return allocation


def _serve(cache: PageCache, tokens: list[int]) -> list[int]:
    """Compute, commit and release one prompt; returns its page table."""
    allocation = _allocate(cache, tokens)
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    pages = list(allocation.pages)
    cache.release(allocation)
    return pages


def _ids(letters: str) -> list[int]:
    return [ord(letter) for letter in letters]


def test_story_of_a_split_in_mid_page() -> None:
    """The five steps of the docstring, with these page numbers."""
    cache = PrefixCache(8, 4)
    assert _serve(cache, _ids("abcdefghi")) == [0, 1, 2]
    assert cache.num_nodes == 1

    bob = _allocate(cache, _ids("abcdefxyz"))
    assert (bob.num_cached, bob.pages) == (6, [0, 3, 4])
    assert bob.copies == [PageCopy(source=1, destination=3, num_slots=2)]
    assert cache.num_nodes == 2
    assert cache.num_evictable_pages == 1  # page 2; the tail of page 1 frees nothing

    bob.copies.clear()
    assert cache.commit(bob, _ids("abcdefxyz")) == 3
    assert cache.num_nodes == 3

    cid = _allocate(cache, _ids("abcdefxq"))
    assert (cid.num_cached, cid.pages[0]) == (7, 0)
    assert cid.copies == [PageCopy(source=3, destination=cid.pages[1], num_slots=3)]
    cache.check()

    cache.release(cid)
    cache.release(bob)
    assert cache.num_free_pages == 3
    last = _allocate(cache, [0] * 16)  # one page more than is free: Ann's tip goes
    assert cache.match(_ids("abcdefghi")).length == 8
    assert cache.extend(last, 20)  # the rest of hers frees nothing itself, but 0 1 and 3 merge
    assert cache.match(_ids("abcdefghi")).length == 6
    assert cache.match(_ids("abcdefxyz")).length == 9
    assert cache.num_nodes == 1
    assert (cache.num_free_pages, 1 in last.pages) == (0, True)
    cache.check()


def test_page_of_the_deepest_node_is_read() -> None:
    """Where three nodes touch one page index, the table names the page of the deepest."""
    cache = PrefixCache(16, 8)
    _serve(cache, [1, 1, 2])
    second = _serve(cache, [1, 1, 3, 3, 4])
    third = _serve(cache, [1, 1, 3, 3, 5, 5, 5, 5, 5])
    assert second[0] != third[0]
    reader = _allocate(cache, [1, 1, 3, 3, 5, 5, 5, 5, 5, 6])
    assert reader.pages[0] == third[0]
    assert reader.copies == [PageCopy(third[1], reader.pages[1], 1)]
    other = _allocate(cache, [1, 1, 3, 3, 4, 6])
    assert other.copies == [PageCopy(second[0], other.pages[0], 5)]


def test_whole_prompt_cached_leaves_one_token() -> None:
    """An exact repeat finds n - 1 tokens, and a prompt of one token finds none."""
    cache = PrefixCache(8, 4)
    _serve(cache, [7] * 8)
    again = _allocate(cache, [7] * 8)
    assert (again.num_cached, len(again.pages)) == (7, 2)
    one = _allocate(cache, [7])
    assert (one.num_cached, one.copies) == (0, [])


@pytest.mark.parametrize("page_size", [1, 8, 16, 32])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_lengths_around_page_borders(page_size: int, offset: int) -> None:
    """kP-1, kP and kP+1 tokens: repeated, extended and shortened by one, all exact."""
    for pages in (1, 2, 3):
        length = pages * page_size + offset
        if length < 1:
            continue
        simulation = Simulation(PrefixCache(64, page_size))
        prompt = [position % 3 for position in range(length)]
        cached = []
        for tokens in (prompt, prompt, [*prompt, 1], prompt[:-1] or [0], [prompt[0]]):
            request = simulation.allocate(tokens)
            assert request is not None
            cached.append(request.allocation.num_cached)
            simulation.compute(request, len(tokens))
            simulation.commit(request, len(tokens))
            simulation.release(request)
        assert cached == [0, length - 1, length, max(length - 2, 0), 0]
        simulation.drain()


def test_same_prompt_computed_twice_is_stored_once() -> None:
    """The second commit names the first one's whole pages before its own are freed."""
    cache = PrefixCache(12, 4)
    first, second = _allocate(cache, [1] * 10), _allocate(cache, [1] * 10)
    own = list(second.pages)
    assert cache.commit(first, [1] * 10) == 10
    free = cache.num_free_pages
    assert cache.commit(second, [1] * 10) == 0
    assert second.pages == [*first.pages[:2], own[2]]
    assert cache.num_free_pages == free + 2
    cache.check()
    assert cache.extend(second, 13)
    assert cache.commit(second, [1] * 10 + [2]) == 1  # goes on in its own third page
    assert cache.match([1] * 10 + [2]).length == 11
    cache.release(first)
    cache.release(second)
    cache.check()


def test_second_request_joins_a_running_one() -> None:
    """What was committed in mid-computation is found; what was not yet committed is not."""
    cache = PrefixCache(12, 4)
    first = _allocate(cache, list(range(20)))
    assert cache.match(list(range(20))).length == 0
    cache.commit(first, list(range(10)))
    second = _allocate(cache, list(range(20)))
    assert second.num_cached == 10
    assert second.copies == [PageCopy(first.pages[2], second.pages[2], 2)]
    cache.commit(first, list(range(20)))
    assert cache.match(list(range(20))).length == 20
    cache.check()


def test_running_request_grows_one_node() -> None:
    """Commits token by token make no chain of nodes."""
    cache = PrefixCache(12, 4)
    running = _allocate(cache, [5] * 6)
    for length in range(1, 41):
        assert cache.extend(running, length)
        assert cache.commit(running, [5] * length) == 1
        assert cache.num_nodes == 1
    cache.check()


def test_matched_pages_are_not_evicted_for_their_own_request() -> None:
    """When all that could go is what the request matched, it is refused and keeps it."""
    cache = PrefixCache(6, 4)
    _serve(cache, [1] * 16)
    running = _allocate(cache, [2] * 8)
    assert cache.allocate([1] * 17) is None
    assert cache.match([1] * 16).length == 16
    assert (cache.num_free_pages, cache.num_evictable_pages) == (0, 4)
    cache.release(running)
    other = _allocate(cache, [1] * 8 + [2] * 16)
    assert other.num_cached == 8
    cache.check()


def test_match_gives_way_to_the_request_itself() -> None:
    """A request that needs the whole pool reuses whole pages only: a copy needs one more."""
    for num_tokens, found in ((28, 22), (29, 20)):
        cache = PrefixCache(8, 4)
        _serve(cache, [1] * 30)
        request = _allocate(cache, [1] * 22 + [2] * (num_tokens - 22))
        assert (request.num_cached, len(request.copies)) == (found, found % 4 // 2)
        cache.check()


def test_refusal_leaves_no_lock() -> None:
    """Refused again and again: no lock stays, and the room is there when the other leaves."""
    cache = PrefixCache(6, 4)
    _serve(cache, [1] * 10)
    holder = _allocate(cache, [2] * 12)
    before = (cache.num_nodes, cache.num_free_pages, cache.num_evictable_pages)
    for _ in range(3):
        assert cache.allocate([1] * 10 + [3] * 6) is None
        assert not cache.extend(holder, 25)
        assert (cache.num_nodes, cache.num_free_pages, cache.num_evictable_pages) == before
        cache.check()
    cache.release(holder)
    assert _allocate(cache, [1] * 10 + [3] * 6).num_cached == 10


@pytest.mark.parametrize("kind", [PrefixCache, UncachedPages])
def test_pages_are_spared_for_others(kind: type[PrefixCache] | type[UncachedPages]) -> None:
    """A request that would leave fewer is refused, and nothing has changed."""
    cache = kind(6, 4)
    holder = cache.allocate([2] * 8)
    assert holder is not None
    assert cache.allocate([1] * 10, spare=2) is None
    assert cache.num_free_pages == 4
    taken = cache.allocate([1] * 10, spare=1)
    assert taken is not None
    assert cache.num_free_pages == 1
    cache.release(taken)
    cache.release(holder)
    cache.check()


def test_what_can_be_evicted_counts_as_spared() -> None:
    """Cached pages that nobody holds are free on demand; those that the request locks are not."""
    cache = PrefixCache(6, 4)
    _serve(cache, [1] * 16)
    _serve(cache, [2] * 8)
    assert cache.num_free_pages == 0
    assert cache.allocate([1] * 16 + [3], spare=2) is None
    taken = cache.allocate([1] * 16 + [3], spare=1)
    assert taken is not None
    assert taken.num_cached == 16
    assert cache.num_evictable_pages + cache.num_free_pages == 1


@pytest.mark.parametrize("kind", [PrefixCache, UncachedPages])
def test_pages_beyond_the_tokens_go_back(kind: type[PrefixCache] | type[UncachedPages]) -> None:
    """What was taken for guesses is given back; what is committed or still needed stays."""
    cache = kind(8, 4)
    request = cache.allocate([1] * 10)
    assert request is not None
    cache.commit(request, [1] * 10)
    assert cache.extend(request, 30)
    assert cache.num_free_pages == 0
    for num_tokens, free in ((30, 0), (28, 1), (13, 4), (12, 5)):
        cache.trim(request, num_tokens)
        assert cache.num_free_pages == free
        cache.check()
    assert cache.extend(request, 13)
    cache.release(request)
    cache.check()


@pytest.mark.parametrize("leave", [1, 2, 4, 5, 11, 20])
def test_more_of_a_prompt_may_be_computed_again(leave: int) -> None:
    """The last `leave` tokens are not taken from the cache, and their duplicates go back."""
    cache = PrefixCache(16, 4)
    _serve(cache, [1] * 20)
    pages = cache.num_cached_pages
    request = cache.allocate([1] * 20, leave=leave)
    assert request is not None
    assert request.num_cached == 20 - leave
    request.copies.clear()
    assert cache.commit(request, [1] * 20) == 0
    cache.release(request)
    cache.check()
    assert cache.num_cached_pages == pages


def test_last_running_request_can_use_the_whole_pool() -> None:
    """A request that matches little of a long cached prompt may evict all the rest of it."""
    cache = PrefixCache(8, 4)
    _serve(cache, [1] * 32)
    alone = _allocate(cache, [1] * 6 + [2])
    assert cache.extend(alone, 28)  # 7 pages, and page 1 that it copied from
    assert not cache.extend(alone, 29)
    cache.check()


def test_copy_source_outlives_pressure() -> None:
    """The page to be copied stays until its reader has gone, whatever is evicted meanwhile."""
    cache = PrefixCache(6, 4)
    _serve(cache, [1] * 7)
    reader = _allocate(cache, [1] * 6 + [2])
    source = reader.copies[0].source
    hungry = _allocate(cache, [3] * 12)
    assert cache.num_free_pages == 0
    assert source not in hungry.pages
    cache.flush()
    cache.check()


def test_released_twice_asserts() -> None:
    """An allocation that was given back can be used for nothing."""
    caches: tuple[PageCache, ...] = (PrefixCache(4, 4), UncachedPages(4, 4))
    for cache in caches:
        gone = _allocate(cache, [1, 2, 3])
        cache.release(gone)
        with pytest.raises(AssertionError, match="released"):
            cache.release(gone)
        with pytest.raises(AssertionError, match="released"):
            cache.extend(gone, 4)
        with pytest.raises(AssertionError, match="released"):
            cache.commit(gone, [1])


def test_commit_wants_pages_and_copies() -> None:
    """Tokens beyond the page table, or computed before the pending copy, cannot be shared."""
    cache = PrefixCache(8, 4)
    _serve(cache, [1] * 6)
    running = _allocate(cache, [1] * 6 + [2])
    with pytest.raises(AssertionError, match="copied"):
        cache.commit(running, [1] * 6 + [2])
    assert cache.commit(running, [1] * 6) == 0
    running.copies.clear()
    with pytest.raises(AssertionError):
        cache.commit(running, [1] * 6 + [2] * 3)
    with pytest.raises(AssertionError):
        cache.commit(running, [1] * 5)
    assert cache.commit(running, [1] * 6 + [2] * 2) == 2


def test_list_tuple_and_array_are_the_same_tokens() -> None:
    """Lists, tuples and int32 arrays of any stride are one and the same; int64 is refused."""
    cache = PrefixCache(8, 4)
    _serve(cache, [2, 4, 6, 8, 10])
    wide = np.arange(12, dtype=np.int32)[2::2]
    assert cache.match(wide).length == cache.match((2, 4, 6, 8, 10, 12)).length == 5
    assert _allocate(cache, wide).num_cached == 4
    wrong: Any = np.arange(3, dtype=np.int64)
    with pytest.raises(AssertionError, match="int64"):
        cache.match(wrong)


def test_extreme_token_ids() -> None:
    """The whole int32 range is usable."""
    cache = PrefixCache(8, 4)
    tokens = [2**31 - 1, 0, -(2**31), 1, 255, 256]
    _serve(cache, tokens)
    assert cache.match(tokens).length == 6
    for token in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="tokens are int32"):
            cache.match([0, token])
        with pytest.raises(ValueError, match="tokens are int32"):
            cache.allocate([0, token])
    cache.check()


def test_impossible_sizes_are_refused() -> None:
    """A page size or a pool below one is a wrong setting."""
    for make in (PrefixCache, UncachedPages):
        with pytest.raises(ValueError, match="page_size is 0"):
            make(4, 0)
        with pytest.raises(ValueError, match="num_pages is 0"):
            make(0, 4)


def test_flush_keeps_what_is_held() -> None:
    """Flush drops the unheld tail of a path and leaves the held prefix."""
    cache = PrefixCache(8, 4)
    _serve(cache, [1] * 20)
    held = _allocate(cache, [1] * 9)
    assert cache.flush() == 3
    assert cache.match([1] * 20).length == 8
    cache.release(held)
    assert cache.flush() == 2
    assert (cache.num_free_pages, cache.num_nodes) == (8, 0)


def test_uncached_pages_share_nothing() -> None:
    """Without a tree every request pays for all its tokens, and gets every page back."""
    cache = UncachedPages(6, 4)
    first = _allocate(cache, [1] * 10)
    assert cache.commit(first, [1] * 10) == 0
    assert cache.match([1] * 10).length == 0
    second = _allocate(cache, [1] * 9)
    assert (second.num_cached, second.copies, second.num_committed) == (0, [], 0)
    assert not set(first.pages) & set(second.pages)
    assert cache.allocate([1]) is None
    assert not cache.extend(first, 13)
    assert cache.extend(first, 12)
    cache.check()
    cache.release(first)
    assert (cache.num_free_pages, cache.flush()) == (3, 0)
    cache.release(second)
    cache.check()
    assert (cache.num_free_pages, cache.num_cached_pages, cache.num_nodes) == (6, 0, 0)
