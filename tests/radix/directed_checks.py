"""Directed checks: what a bug may break and the state machine cannot see, one small story each.

Each takes the class of the cache, the real one or a mutant's, and asserts. The machine has one
tier below the device and a clock that hardly moves, and hints are hints: no answer depends on them.
"""

from __future__ import annotations

from collections.abc import Callable

from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import EventLog
from radixchat.radix.tiers import Span, Tier

CacheClass = type[PrefixCache]


def _serve(cache: PrefixCache, tokens: list[int], conversation: str | None = None) -> None:
    """Compute, commit and release one prompt."""
    allocation = cache.allocate(tokens, conversation=conversation)
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    cache.release(allocation)


def _superseded(cache: PrefixCache, tokens: list[int]) -> list[bool]:
    """For each page of the path, whether its branch was left."""
    node, _ = cache._tree.find(b"", b"".join(token.to_bytes(4, "little") for token in tokens))
    flags: list[bool] = []
    while node.parent is not None:
        begin = node.start // cache.page_size
        own = [
            next((use for end, use in node.marks if index < end), node.use).superseded
            for index in range(begin, begin + len(node.pages))
        ]
        flags = own + flags
        node = node.parent
    return flags


def current_branch_is_not_superseded(kind: CacheClass) -> None:
    """A reply was left, evicted down to the words that the current reply begins with too."""
    cache = kind(40, 1)
    _serve(cache, [1, 2, 3, 4, 5], "ann")
    cache.supersede([1, 2, 3, 4, 6, 7], 2, "ann")
    assert _superseded(cache, [1, 2, 3, 4, 5]) == [False] * 5


def page_that_stays_in_part_is_not_superseded(kind: CacheClass) -> None:
    """A branch is left in mid-page: that page holds what is still wanted too."""
    cache = kind(40, 4)
    _serve(cache, list(range(12)), "ann")
    cache.supersede(list(range(12)), 6, "ann")
    assert _superseded(cache, list(range(12))) == [False, False, True]


def match_is_cut_until_it_fits(kind: CacheClass) -> None:
    """Locking all of a match would leave one page too few; locking two pages of it does not."""
    cache = kind(7, 4)
    _serve(cache, list(range(11)))
    assert cache.allocate([0, 1, 2, 3, 4, 5, -1]) is not None
    whole = cache.allocate([*range(11), *[-1] * 13])
    assert whole is not None
    assert whole.num_cached == 8


def page_of_the_grandparent_is_counted_once(kind: CacheClass) -> None:
    """Two requests write the same page index by turns: the parent's page is another's."""
    cache = kind(10, 4)
    first = cache.allocate([1, 2, 3, 4, 5])
    assert first is not None
    cache.commit(first, [1, 2, 3, 4, 5])
    _serve(cache, [1, 2, 3, 4, 5, 6])
    assert cache.extend(first, 7)
    cache.commit(first, [1, 2, 3, 4, 5, 6, 7])
    cache.check()
    assert cache.num_nodes == 3
    cache.release(first)
    cache.check()


def leaf_that_was_used_again_stays(kind: CacheClass) -> None:
    """Of two paths the one goes that was not continued, though it is the younger."""
    cache = kind(8, 1)
    _serve(cache, [1, 2, 3])
    _serve(cache, [4, 5, 6])
    _serve(cache, [1, 2, 3, 7])
    assert cache.allocate([0, 0, 0]) is not None
    assert cache.match([1, 2, 3, 7]).length == 4
    assert cache.match([4, 5, 6]).length == 1


def held_branch_is_not_purged(kind: CacheClass) -> None:
    """A conversation is deleted while a request still reads what it alone has used before."""
    cache = kind(10, 1)
    _serve(cache, [1, 2, 3, 4], "ann")
    assert cache.allocate([1, 2, 3, 4, 5], conversation="ann") is not None
    assert cache.purge([1, 2], "ann") == 0
    assert cache.match([1, 2, 3, 4]).length == 4


def each_eviction_is_logged(kind: CacheClass) -> None:
    """A path is trimmed in two steps and deleted in a third: three events."""
    log = EventLog()
    cache = kind(6, 1, events=log)
    _serve(cache, [1, 2, 3, 4, 5, 6], "ann")
    for length in (1, 2):
        running = cache.allocate([0] * length)
        assert running is not None
        cache.release(running)
    cache.purge([1, 2, 3, 4, 5, 6], "ann")
    events = log.since(1)
    assert events is not None
    assert [(event.start, len(event.tokens) // 4) for event in events] == [(5, 6), (4, 5), (0, 4)]


def trimmed_path_is_one_entry(kind: CacheClass) -> None:
    """A tip goes page by page, and then the trunk, which a request had held until then."""
    cache = kind(7, 1)
    _serve(cache, [1, 2, 3, 4, 5, 6])
    reader = cache.allocate([1, 2, 3, 0])
    assert reader is not None
    for length in (1, 2, 3):
        running = cache.allocate([0] * length)
        assert running is not None
        cache.release(running)
    cache.release(reader)
    assert cache.flush() == 3
    assert [entry.start for entry in cache._recent._entries] == [0]


def each_evicted_path_is_told(kind: CacheClass) -> None:
    """A path is cut at the length at which another one ends, which goes next."""
    cache = kind(8, 1)
    _serve(cache, [1, 2, 3, 4, 5])
    _serve(cache, [6, 7, 8])
    for tokens in ([1, 2, 3, 0], [0, 0], [0] * 5):  # the first keeps the head of its path
        running = cache.allocate(tokens)
        assert running is not None
        cache.release(running)
    for path in ([1, 2, 3, 4, 5], [6, 7, 8]):
        again = cache.allocate([*path, 0])
        assert again is not None
        assert again.evicted is not None
        assert again.evicted.length == len(path)
        cache.release(again)


def latest_eviction_is_told(kind: CacheClass) -> None:
    """A path that was evicted, came back and was evicted again: the second time counts."""
    seconds = [0.0]
    cache = kind(8, 2, clock=lambda: seconds[0])
    for seconds[0] in (10.0, 20.0):
        _serve(cache, [1, 2, 3, 4])
        cache.flush()
    seconds[0] = 21.5
    again = cache.allocate([1, 2, 3, 4, 5])
    assert again is not None
    assert again.evicted is not None
    assert (again.evicted.length, again.evicted.seconds_ago) == (4, 1.5)


def deleted_path_was_not_evicted(kind: CacheClass) -> None:
    """A conversation is evicted, in part or all of it, then deleted: nothing tells of it."""
    for num_pages in (2, 5):
        cache = kind(6, 1)
        _serve(cache, [1, 2, 3, 4, 5], "ann")
        running = cache.allocate([0] * (1 + num_pages))
        assert running is not None
        cache.release(running)
        assert cache.purge([1, 2, 3, 4, 5], "ann") == 5 - num_pages
        assert not cache._recent._entries
        again = cache.allocate([1, 2, 3, 4, 5])
        assert again is not None
        assert again.evicted is None


def fastest_tier_is_named(kind: CacheClass) -> None:
    """Of several copies of a page the one that is to be had first."""
    cache = kind(8, 2)
    tokens = [1, 2, 3, 4, 5, 6, 7]
    cache.move(tokens, 0, None, Tier.STORE)
    cache.move(tokens[:4], 0, None, Tier.DISK)
    cache.move(tokens[:2], 0, None, Tier.HOST)
    assert cache.match(tokens).spans == (
        Span(Tier.HOST, 0, 2),
        Span(Tier.DISK, 2, 4),
        Span(Tier.STORE, 4, 6),
    )


DIRECTED_CHECKS: tuple[Callable[[CacheClass], None], ...] = (
    current_branch_is_not_superseded,
    page_that_stays_in_part_is_not_superseded,
    match_is_cut_until_it_fits,
    page_of_the_grandparent_is_counted_once,
    leaf_that_was_used_again_stays,
    held_branch_is_not_purged,
    each_eviction_is_logged,
    trimmed_path_is_one_entry,
    each_evicted_path_is_told,
    latest_eviction_is_told,
    deleted_path_was_not_evicted,
    fastest_tier_is_named,
)
