"""Tests of what is known of the last use of each page, of branches that are left, and of purges.

Pages of one token unless said otherwise, so that a use belongs to a token; letters are tokens.
"""

from __future__ import annotations

import pytest

from radixchat.radix.allocation import Allocation, LeavingPages
from radixchat.radix.cache import PrefixCache
from radixchat.radix.slru import SlruPolicy
from radixchat.radix.use import UNUSED, Use


def _ids(letters: str) -> list[int]:
    return [ord(letter) for letter in letters]


def _run(cache: PrefixCache, letters: str, conversation: str | None = None) -> Allocation:
    """Compute and commit; the request goes on."""
    allocation = cache.allocate(_ids(letters), conversation=conversation)
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, _ids(letters))
    return allocation


def _serve(cache: PrefixCache, letters: str, conversation: str | None = None) -> None:
    cache.release(_run(cache, letters, conversation))
    cache.check()


def _uses(cache: PrefixCache, letters: str) -> list[Use]:
    """The last use of each page of a cached path, by the deepest node that has it."""
    tokens = b"".join(token.to_bytes(4, "little") for token in _ids(letters))
    node, length = cache._tree.find(b"", tokens)
    assert length == len(letters), "not cached"
    uses: dict[int, Use] = {}
    while node.parent is not None:
        begin = node.start // cache.page_size
        for index in range(begin, begin + len(node.pages)):
            use = next((use for border, use in node.marks if index < border), node.use)
            uses.setdefault(index, use)
        node = node.parent
    return [uses[index] for index in range(-(-length // cache.page_size))]


def _letters(cache: PrefixCache, path: str, flag: str) -> str:
    """The letters of a path whose last use has a flag; the others as dots."""
    flags = [getattr(use, flag) for use in _uses(cache, path)]
    return "".join(c if on else "." for c, on in zip(path, flags, strict=True))


def _cached(cache: PrefixCache, letters: str) -> str:
    return letters[: cache.match(_ids(letters)).length]


# A use


def test_use_that_follows_another() -> None:
    """Reused after any use, shared after another's or a shared one; what was left is not again."""
    first = Use(1, 10.0, "ann", 5)
    assert first.following(UNUSED) is first
    again = Use(2, 11.0, "ann", 7).following(first)
    assert (again.reused, again.shared, again.stamp, again.length) == (True, False, 2, 7)
    other = Use(3, 12.0, "bob", 6).following(again)
    assert (other.reused, other.shared, other.conversation) == (True, True, "bob")
    back = Use(4, 13.0, "ann", 5).following(other)
    assert (back.reused, back.shared) == (True, True)
    left = Use(5, 14.0, "ann", 5, reused=True, superseded=True)
    assert not Use(6, 15.0, "ann", 5).following(left).superseded


@pytest.mark.parametrize("pair", [(None, "ann"), ("ann", None), ("ann", "bob")])
def test_request_without_a_conversation_is_somebody_else(
    pair: tuple[str | None, str | None],
) -> None:
    """Nobody knows whose it was, so it is another's; two unknown ones are one."""
    later, earlier = pair
    assert Use(2, 0.0, later, 1).following(Use(1, 0.0, earlier, 1)).shared
    assert not Use(2, 0.0, None, 1).following(Use(1, 0.0, None, 1)).shared


def test_release_records_when_whose_and_how_long() -> None:
    """Every token of the path has the one use, until a part of it is used again."""
    now = [5.0]
    cache = PrefixCache(40, 1, clock=lambda: now[0])
    _serve(cache, "abcdef", "ann")
    now[0] = 8.0
    _serve(cache, "abcxy", "ann")
    facts = [(use.stamp, use.time, use.conversation, use.length) for use in _uses(cache, "abcdef")]
    assert facts == [(2, 8.0, "ann", 5)] * 3 + [(1, 5.0, "ann", 6)] * 3


def test_flags_of_a_conversation_and_another() -> None:
    """The common head is reused and shared; what only one of them has is neither."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abcde", "ann")
    _serve(cache, "abxy", "bob")
    assert _letters(cache, "abcde", "reused") == _letters(cache, "abcde", "shared") == "ab..."
    assert _letters(cache, "abxy", "reused") == _letters(cache, "abxy", "shared") == "ab.."
    _serve(cache, "abcdefg", "ann")
    assert _letters(cache, "abcdefg", "reused") == "abcde.."
    assert _letters(cache, "abcdefg", "shared") == "ab....."


def test_flags_survive_split_and_merge() -> None:
    """A probe cuts the node and lets go again: what it did not touch is known as before."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abc", "ann")
    _serve(cache, "abcdef", "bob")
    _serve(cache, "abcdefghi", "bob")
    assert cache.num_nodes == 1
    before = _uses(cache, "abcdefghi")
    for probe in ("abcdefghz", "abcdez", "abz"):
        held = cache.allocate(_ids(probe))
        assert held is not None
        assert cache.num_nodes == 2
        assert _uses(cache, "abcdefghi") == before
        cache.release(held)
        assert cache.num_nodes == 1
        length = held.num_cached
        assert held.num_cached == len(probe) - 1
        after = _uses(cache, "abcdefghi")
        assert after[length:] == before[length:]
        assert all(use.shared for use in after[:length])
        before = after
    assert _letters(cache, "abcdefghi", "shared") == "abcdefgh."
    assert _letters(cache, "abcdefghi", "reused") == "abcdefgh."


def test_growth_in_place_is_a_first_use() -> None:
    """A node that its next turn extends has two uses: the old part's and none for the new one."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abc", "ann")
    running = _run(cache, "abcde", "bob")
    assert cache.num_nodes == 1
    cache.release(running)
    assert _letters(cache, "abcde", "shared") == _letters(cache, "abcde", "reused") == "abc.."


def test_eviction_brings_back_the_use_below() -> None:
    """When the tip goes, the leaf is as recent as what is left of it."""
    cache = PrefixCache(9, 1)
    _serve(cache, "abcdefgh", "ann")
    _serve(cache, "abc", "bob")
    before = _uses(cache, "abcdefgh")
    assert cache.allocate(_ids("zzzzzz")) is not None
    assert _cached(cache, "abcdefgh") == "abc"
    assert _uses(cache, "abc") == before[:3]


def test_page_has_the_use_of_all_its_tokens() -> None:
    """Pages of four: a page is shared when one of its tokens is."""
    cache = PrefixCache(40, 4)
    _serve(cache, "abcdefghijkl", "ann")
    probe = cache.allocate(_ids("abcdefz"), conversation="bob")
    assert probe is not None
    cache.release(probe)
    assert [use.shared for use in _uses(cache, "abcdefghijkl")] == [True, True, False]


# Branches that are left


def test_left_branch_goes_up_to_where_it_was_left() -> None:
    """A reply is regenerated: the old one is superseded, the question and the new one are not."""
    cache = PrefixCache(40, 1)
    _serve(cache, "question-old", "ann")
    cache.supersede(_ids("question-old"), 9, "ann")
    _serve(cache, "question-new", "ann")
    assert _letters(cache, "question-old", "superseded") == ".........old"
    assert _letters(cache, "question-new", "superseded") == "." * 12
    cache.check()


def test_all_replies_that_were_left_below_one_question() -> None:
    """Each is left on its own, and what hangs below a reply's end goes with it."""
    cache = PrefixCache(60, 1)
    _serve(cache, "ask-one", "ann")
    cache.supersede(_ids("ask-one"), 4, "ann")
    _serve(cache, "ask-two", "ann")
    _serve(cache, "ask-two-more", "ann")
    cache.supersede(_ids("ask-two"), 4, "ann")
    _serve(cache, "ask-three", "ann")
    assert _letters(cache, "ask-one", "superseded") == "....one"
    assert _letters(cache, "ask-two-more", "superseded") == ".....wo-more"  # the t is three's too
    assert _letters(cache, "ask-three", "superseded") == "." * 9


def test_left_branch_that_another_conversation_used_stays() -> None:
    """Ann leaves a reply that Bob has forked: only what Bob has not is superseded."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abcdef", "ann")
    _serve(cache, "abcdxy", "bob")
    cache.supersede(_ids("abcdef"), 2, "ann")
    assert _letters(cache, "abcdef", "superseded") == "....ef"
    cache.supersede(_ids("abcdxy"), 2, "ann")
    assert _letters(cache, "abcdxy", "superseded") == "......"


def test_left_branch_that_is_running_stays() -> None:
    """What a request holds is in use, whatever was said; its release is a use like any other."""
    cache = PrefixCache(40, 1)
    running = _run(cache, "abcdef", "ann")
    cache.supersede(_ids("abcdef"), 2, "ann")
    cache.release(running)
    assert _letters(cache, "abcdef", "superseded") == "......"
    cache.supersede(_ids("abcdef"), 2, "ann")
    assert _letters(cache, "abcdef", "superseded") == "..cdef"
    _serve(cache, "abcd", "ann")  # back on that branch
    assert _letters(cache, "abcdef", "superseded") == "....ef"


def test_branch_that_is_not_cached_is_no_news() -> None:
    """Nothing beyond the start is there, or only what another branch has: nothing is marked."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abcdef", "ann")
    for path, start in (("abcxyz", 3), ("abcxyz", 2), ("abc", 3), ("zzz", 0), ("abcdef", 6)):
        cache.supersede(_ids(path), start, "ann")
        assert _letters(cache, "abcdef", "superseded") == "......"
    cache.supersede(_ids("abcdef"), 0, "ann", b"other")
    assert _letters(cache, "abcdef", "superseded") == "......"


@pytest.mark.parametrize(("start", "flags"), [(4, "011"), (5, "001"), (7, "001"), (8, "001")])
def test_left_in_mid_page(start: int, flags: str) -> None:
    """Pages of four: a page is left when all its tokens are."""
    cache = PrefixCache(40, 4)
    _serve(cache, "abcdefghijk", "ann")
    cache.supersede(_ids("abcdefghijk"), start, "ann")
    found = "".join(str(int(use.superseded)) for use in _uses(cache, "abcdefghijk"))
    assert found == flags
    cache.check()


# Purges


def test_purge_takes_a_conversation_and_counts_the_pages() -> None:
    """Alone in the cache, all of it goes, at any page size."""
    for page_size in (1, 2, 4, 16):
        cache = PrefixCache(40, page_size)
        _serve(cache, "abcdefghijk", "ann")
        assert cache.purge(_ids("abcdefghijk"), "ann") == -(-11 // page_size)
        assert (cache.num_free_pages, cache.num_nodes) == (40, 0)
        cache.check()
        assert cache.purge(_ids("abcdefghijk"), "ann") == 0


@pytest.mark.parametrize(("start", "left"), [(0, ""), (3, "abc"), (4, "abcd"), (10, "abcdefghij")])
def test_purge_leaves_what_lies_before_the_start(start: int, left: str) -> None:
    """A system prompt, say, of which the caller knows that others hold it, to the exact token."""
    cache = PrefixCache(40, 4)
    _serve(cache, "abcdefghijk", "ann")
    freed = cache.purge(_ids("abcdefghijk"), "ann", start=start)
    assert freed == 3 - -(-start // 4)
    assert _cached(cache, "abcdefghijk") == left
    cache.check()


def test_purge_leaves_what_another_conversation_hangs_on() -> None:
    """Of two conversations with one head only the deleted one's tail goes."""
    cache = PrefixCache(40, 4)
    _serve(cache, "abcdefghijk", "ann")
    _serve(cache, "abcdefxyz", "bob")
    assert cache.purge(_ids("abcdefghijk"), "ann") == 2  # page 1 had e f of both, and g h
    assert _cached(cache, "abcdefghijk") == "abcdef"
    assert _cached(cache, "abcdefxyz") == "abcdefxyz"
    cache.check()


def test_purge_takes_the_subtree_that_only_this_conversation_used() -> None:
    """Branches and continuations of the deleted conversation go, another's stays."""
    cache = PrefixCache(60, 1)
    for tail, who in (
        ("", "ann"),
        ("one", "ann"),
        ("two", "ann"),
        ("bobs", "bob"),
        ("twos", "ann"),
    ):
        _serve(cache, "abc" + tail, who)
    cache.purge(_ids("abc"), "ann")
    cached = [_cached(cache, "abc" + tail) for tail in ("one", "twos", "bobs")]
    assert cached == ["abc", "abc", "abcbobs"]
    assert cache.num_nodes == 1
    cache.check()


def test_purge_is_exact_where_a_continuation_is_shared_in_part() -> None:
    """Bob has forked Ann's conversation and gone less far: he keeps just what he has used."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abcdefgh", "ann")
    _serve(cache, "abcde", "bob")
    assert cache.purge(_ids("abc"), "ann") == 3
    assert _cached(cache, "abcdefgh") == "abcde"
    cache.check()


def test_purge_of_another_path_leaves_it() -> None:
    """Another conversation, another namespace, or a path that is not cached: nothing goes."""
    cache = PrefixCache(40, 1)
    _serve(cache, "abcdef", "ann")
    assert cache.purge(_ids("abc"), "bob") == 0
    assert cache.purge(_ids("abcdef"), "ann", b"other") == 0
    assert cache.purge(_ids("xyz"), "ann") == 0
    assert _cached(cache, "abcdef") == "abcdef"


def test_purge_leaves_what_a_running_request_holds() -> None:
    """Its committed tokens stay until it ends; what hangs below them goes now."""
    cache = PrefixCache(40, 4)
    _serve(cache, "abcdefghijkl", "ann")
    running = cache.allocate(_ids("abcdefz"), conversation="ann")
    assert running is not None
    assert cache.purge(_ids("abcdefghijkl"), "ann") == 1  # i j k l; page 1 is held for its e f
    assert _cached(cache, "abcdefghijkl") == "abcdef"
    cache.check()
    assert cache.purge(_ids("abcdef"), "ann") == 0
    running.copies.clear()
    cache.commit(running, _ids("abcdefz"))
    cache.release(running)
    cache.check()
    assert cache.purge(_ids("abcdefz"), "ann") == 2
    assert cache.num_free_pages == 40


def test_purged_pages_are_not_offered_to_other_tiers() -> None:
    """What is evicted is told while its pages are there; what is deleted must not be copied."""
    told: list[LeavingPages] = []
    cache = PrefixCache(6, 2, on_leave=told.append)
    _serve(cache, "abcdefgh", "ann")
    assert cache.allocate(_ids("zzzzz")) is not None
    assert [(leaving.start, leaving.pages) for leaving in told] == [(6, [3])]
    assert cache.purge(_ids("abcdefgh"), "ann") == 3
    assert len(told) == 1


def test_left_reply_of_less_than_a_page_is_flagged() -> None:
    """Its only page begins with the question's tokens, but is a copy of its own."""
    cache = PrefixCache(40, 16)
    _serve(cache, "question and the answer", "ann")
    _serve(cache, "question no", "ann")
    cache.supersede(_ids("question no"), len("question "), "ann")
    assert [use.superseded for use in _uses(cache, "question no")] == [True]
    assert [use.superseded for use in _uses(cache, "question and the answer")] == [False] * 2
    cache.check()


def test_policy_hears_of_a_leaf_that_is_split() -> None:
    """What a policy counts of a leaf is what the leaf has, when a request takes its head."""
    policy = SlruPolicy(40)
    cache = PrefixCache(40, 1, policy)
    _serve(cache, "a path of twenty one.")
    _serve(cache, "a path of twenty one.")
    held = cache.allocate(_ids("a path of three"))
    assert held is not None
    assert {len(leaf.pages): count for leaf, count in policy._pages.items()} == {10: 10}
    cache.release(held)
