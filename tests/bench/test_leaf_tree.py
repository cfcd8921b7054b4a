"""The tree that the simulations of SGLang and TGI share, against sets of prefixes."""

from __future__ import annotations

import random

import pytest

from radixchat.bench.leaf_tree import LeafTree, Span


def _units(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def _values(units: bytes) -> tuple[int, ...]:
    return tuple(memoryview(units).cast("i"))


def _put(tree: LeafTree, namespace: bytes, values: list[int]) -> int:
    units = _units(values)
    node, known = tree.walk(namespace, units)
    tree.lock(node)
    if known < len(values):
        node = tree.append(node, units[4 * known :])
    tree.unlock(node)
    return known


def _path(node: Span) -> tuple[int, ...]:
    values: tuple[int, ...] = ()
    above: Span | None = node
    while above is not None:
        values = _values(above.key) + values
        above = above.parent
    return values


def test_it_holds_what_was_put_and_not_taken() -> None:
    """At every step its nodes spell the prefixes that a plain set holds, and no others."""
    rng = random.Random(3)
    tree, held = LeafTree(), set[tuple[int, ...]]()
    for _ in range(800):
        if rng.random() < 0.4 and (leaf := tree.victim()) is not None:
            path = _path(leaf)
            for _ in range(tree.trim(leaf, rng.randint(1, 9))):
                held.remove(path)
                path = path[:-1]
        else:
            values = [rng.randrange(2) for _ in range(rng.randint(1, 12))]
            prefixes = [tuple(values[: end + 1]) for end in range(len(values))]
            assert _put(tree, b"", values) == sum(prefix in held for prefix in prefixes)
            held.update(prefixes)
        spelled = [_path(node)[: end + 1] for node in tree.nodes() for end in _ends(node)]
        assert len(spelled) == len(set(spelled)) == tree.num_units
        assert set(spelled) == held


def _ends(node: Span) -> range:
    end = len(_path(node))
    return range(end - node.num_units, end)


def test_the_order_is_that_of_use() -> None:
    """Leaves go by their last walk, and a parent only after its children."""
    tree = LeafTree()
    for values in ([1, 2, 3], [1, 2, 4], [5, 6], [1, 2, 3]):
        _put(tree, b"", values)
    gone = []
    while (leaf := tree.victim()) is not None:
        gone.append(_path(leaf))
        tree.remove(leaf)
    assert gone == [(1, 2, 4), (5, 6), (1, 2, 3), (1, 2)]
    assert tree.num_units == 0


def test_a_walk_that_ends_in_mid_node_uses_the_whole_node() -> None:
    """What lies beyond the match counts as used with it."""
    tree = LeafTree()
    for values in ([1, 2, 3], [5, 6], [1, 9]):
        _put(tree, b"", values)
    victim = tree.victim()
    assert victim is not None
    assert _path(victim) == (5, 6)


def test_locked_leaves_are_no_victims() -> None:
    """Nothing on a locked path is offered, nor taken."""
    tree = LeafTree()
    _put(tree, b"", [1, 2, 3])
    node, _ = tree.walk(b"", _units([1, 2]))
    tree.lock(node)
    leaf = tree.victim()
    assert leaf is not None
    assert _path(leaf) == (1, 2, 3)
    tree.remove(leaf)
    assert tree.victim() is None
    with pytest.raises(AssertionError, match="no unlocked leaf"):
        tree.remove(node)
    tree.unlock(node)
    assert tree.victim() is node


def test_a_locked_node_may_be_cut() -> None:
    """Both parts are locked then, until the lock goes."""
    tree = LeafTree()
    _put(tree, b"", [1, 2, 3, 4])
    node, _ = tree.walk(b"", _units([1, 2, 3, 4]))
    tree.lock(node)
    upper, length = tree.walk(b"", _units([1, 2, 9]))
    assert (length, upper.locks, node.locks) == (2, 1, 1)
    tree.unlock(node)
    assert (upper.locks, node.locks, tree.victim()) == (0, 0, node)


def test_namespaces_are_apart() -> None:
    """The same units in two namespaces are held twice."""
    tree = LeafTree()
    assert [_put(tree, name, [1, 2, 3]) for name in (b"a", b"b", b"a")] == [0, 0, 3]
    assert tree.num_units == 6


def test_stale_entries_do_not_pile_up() -> None:
    """Ten thousand uses of two leaves leave a short order behind."""
    tree = LeafTree()
    for number in range(10_000):
        _put(tree, b"", [number % 2, 1])
    assert len(tree._order) < 200
