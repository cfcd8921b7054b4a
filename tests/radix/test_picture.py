"""A picture of a namespace's nodes: parents first, the path marked, the oldest left out."""

from __future__ import annotations

from radixchat.radix.cache import PrefixCache
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.uncached import UncachedPages

TRUNK = list(range(1, 33))


def fill(cache: PrefixCache | PublicPrefixCache, *paths: list[int], namespace: bytes = b"") -> None:
    for number, path in enumerate(paths):
        allocation = cache.allocate(path, namespace, f"chat {number}")
        assert allocation is not None
        cache.commit(allocation, path)
        cache.release(allocation)
    cache.check()


def test_branches_and_the_path() -> None:
    """A trunk and two branches; the path that was asked for is marked to the token."""
    cache = PrefixCache(64, 4)
    fill(cache, TRUNK + [50] * 10, TRUNK + [60] * 6)
    fill(cache, [9] * 8, namespace=b"another")
    nodes, more = cache.picture(TRUNK + [60] * 3, b"", 100)
    assert more == 0
    spans = {(node.start, node.end, node.on_path) for node in nodes}
    assert spans == {(0, 32, 32), (32, 42, 0), (32, 38, 3)}
    assert nodes[0].parent is None
    assert {node.parent for node in nodes[1:]} == {0}
    assert not any(node.locked or node.superseded for node in nodes)


def test_the_oldest_are_left_out_but_not_the_path() -> None:
    """A bound on the nodes keeps the path's and the latest, and their parents."""
    cache = PrefixCache(640, 4)
    fill(cache, *([*TRUNK, 100 + i, 5, 6] for i in range(20)))
    nodes, more = cache.picture([*TRUNK, 100, 5], b"", 4)
    assert (len(nodes), more) == (4, 17)
    assert [node.on_path for node in nodes if node.on_path] == [32, 2]
    assert nodes[0].end == 32


def test_below_a_public_prefix() -> None:
    """The private part, its positions counted from the prompt's first token."""
    cache = PublicPrefixCache(PrefixCache(64, 4), [TRUNK])
    public = 28  # whole pages, one token less than it has
    fill(cache, TRUNK + [50] * 10, [70] * 8, namespace=b"a tenant")
    nodes, _ = cache.picture(TRUNK + [50] * 4, b"a tenant", 100)
    assert {(node.start, node.end, node.on_path) for node in nodes} == {(0, 8, 0), (public, 42, 8)}


def test_nothing_to_see() -> None:
    """An empty cache, an unknown namespace, no cache at all."""
    assert PrefixCache(8, 4).picture(TRUNK, b"", 10) == ([], 0)
    assert UncachedPages(8, 4).picture(TRUNK, b"", 10) == ([], 0)
