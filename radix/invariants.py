"""What is always true of a tree: `check_tree` walks it and raises when it is not.

Runs in tests after every operation; it changes nothing and repairs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from radixchat.radix.node import NO_CHILDREN, TOKEN_BYTES, Node, Root
from radixchat.radix.tree import RadixTree


def check_tree(tree: RadixTree, held: Iterable[Node]) -> Counter[int]:
    """Raise AssertionError unless every invariant holds; returns each page's references.

    `held`: for each live allocation the node at which its committed tokens end.
    """
    locks: Counter[Node] = Counter()
    for holder in held:
        node: Node | None = holder
        while node is not None:
            locks[node] += 1
            node = node.parent
    nodes = list(tree.nodes())
    assert not NO_CHILDREN, "what all leaves share was filled"
    assert locks.keys() <= set(nodes), "an allocation holds a node that is not in the tree"
    references: Counter[int] = Counter()
    pinned: set[int] = set()
    tokens: Counter[Node] = Counter()
    for node in nodes:
        assert node.parent is None or node.root is node.parent.root, "two roots on one path"
        tokens[node.root] += node.end - node.start
        assert node.locks == locks[node], f"{node.locks} locks, the walk finds {locks[node]}"
        _check_children(node)
        if isinstance(node, Root):
            assert tree.roots[node.namespace] is node
            assert node.children or node.locks, "an empty root stays"
        else:
            _check_span(node, tree.page_size)
        references.update(node.pages)
        if node.locks:
            pinned.update(node.pages)
    evictable = {node for node in nodes if not (node.locks or node.children)}
    ordered = list(tree.policy.leaves())
    assert len(ordered) == len(evictable), "the eviction order is not the evictable leaves"
    assert set(ordered) == evictable, "the eviction order is not the evictable leaves"
    assert tree.num_nodes == len(nodes) - len(tree.roots)
    assert tree.num_tokens == sum(tokens.values())
    assert all(root.num_tokens == tokens[root] for root in tree.roots.values())
    assert tree.num_evictable == len(references.keys() - pinned)
    return references


def _check_children(node: Node) -> None:
    for token, child in node.children.items():
        assert child.parent is node, "a child has another parent"
        assert len(child.key) > 0, "an empty span"
        assert child.start == node.end, "a child does not begin where its parent ends"
        assert child.first == token, "a child is under another token than its first"
        if not node.locks and not isinstance(node, Root):
            assert node.use.stamp >= _stamps(child)[0], "a parent was used before its child"
    assert node.locks or len(node.children) != 1 or isinstance(node, Root), "an unmerged chain"


def _check_span(node: Node, page_size: int) -> None:
    assert len(node.key) % TOKEN_BYTES == 0, "half a token"
    first, last = node.start // page_size, (node.end - 1) // page_size
    assert len(node.pages) == last + 1 - first, "the pages do not cover the span"
    borders = [first, *(index for index, _ in node.marks)]
    assert borders == sorted(set(borders)), "marks out of order"
    assert borders[-1] <= last, "a mark leaves no page to the last use"
    if not node.locks:
        assert _stamps(node) == sorted(_stamps(node), reverse=True), "uses out of order"
        assert _stamps(node)[-1] > 0, "unheld, and yet never used"


def _stamps(node: Node) -> list[int]:
    return [*(use.stamp for _, use in node.marks), node.use.stamp]
