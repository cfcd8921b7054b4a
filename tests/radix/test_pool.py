"""Tests of the page pool."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from radixchat.radix.pool import PagePool


def test_every_page_is_taken_once() -> None:
    """Taking all pages gives each id from 0 to num_pages - 1 exactly once."""
    pool = PagePool(5)
    assert sorted(pool.take(2) + pool.take(3)) == [0, 1, 2, 3, 4]
    assert pool.num_free == 0


def test_page_is_free_after_its_last_reference() -> None:
    """A page that is held twice becomes free with the second drop, not with the first."""
    pool = PagePool(1)
    pages = pool.take(1)
    pool.hold(pages)
    assert pool.drop(pages) == 0
    assert pool.num_free == 0
    assert pool.drop(pages) == 1
    assert pool.num_free == 1


def test_any_free_pages_serve_any_need() -> None:
    """No external fragmentation: after freeing in any order, all that is free can be taken."""
    draw, pool = random.Random(0), PagePool(100)
    held = pool.take(100)
    draw.shuffle(held)
    for count in range(1, 101):
        pool.drop(held[:count])
        assert pool.num_free == count
        held[:count] = pool.take(count)


def test_double_free_asserts() -> None:
    """Dropping a free page is an error, and so is sharing one."""
    pool = PagePool(2)
    pages = pool.take(1)
    pool.drop(pages)
    with pytest.raises(AssertionError, match=f"page {pages[0]} is freed twice"):
        pool.drop(pages)
    with pytest.raises(AssertionError, match=f"page {pages[0]} is free"):
        pool.hold(pages)


def test_taking_more_than_is_free_asserts() -> None:
    """Whoever takes has made sure that there is enough."""
    with pytest.raises(AssertionError, match="3 pages asked, 2 are free"):
        PagePool(2).take(3)


def test_size_below_one_is_refused() -> None:
    """A pool without pages is a wrong setting, and the message shows it."""
    with pytest.raises(ValueError, match="num_pages is 0"):
        PagePool(0)


def test_check_compares_with_a_walk() -> None:
    """`check` accepts the true references and nothing else."""
    pool = PagePool(3)
    (page,) = pool.take(1)
    pool.check(Counter({page: 1}))
    for wrong in ({}, {page: 2}, {page: 1, 2: 1}, {page: 1, 3: 1}):
        with pytest.raises(AssertionError):
            pool.check(Counter(wrong))
