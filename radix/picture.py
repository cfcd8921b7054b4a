"""A picture of one namespace's part of the tree, for people: `picture`.

Reads, and changes nothing. Knows nodes; no page and no policy.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from radixchat.radix.node import Node, descend


@dataclass(frozen=True, slots=True)
class NodeView:
    """Tokens [start, end) of a path; parent: the index of the node above, None for the first.

    last_use: seconds of the cache's clock, of the page at its tip; None: in use for the first time.
    on_path: how many of its tokens the path that was asked for has.
    """

    parent: int | None
    start: int
    end: int
    last_use: float | None
    superseded: bool
    locked: bool
    on_path: int


def picture(root: Node, path: bytes, limit: int) -> tuple[list[NodeView], int]:
    """At most `limit` nodes below a root, parents first; and how many there are more.

    path: int32 tokens as bytes, whose nodes are marked. Left out are those of the least recent use,
    but the path's last. Takes the time of a walk over the root's nodes.
    """
    marks = dict(_on_path(root, path))
    nodes = list(_below(root))

    def worth(node: Node) -> tuple[bool, bool, int, int]:
        return node in marks, node.locks > 0, _stamp(node), -node.start

    kept = sorted(heapq.nlargest(limit, nodes, key=worth), key=lambda node: node.start)
    places: dict[Node, int] = {}
    views: list[NodeView] = []
    for node in kept:
        assert node.parent is not None
        if node.parent is not root and node.parent not in places:
            continue  # one above it did not fit
        places[node] = len(views)
        views.append(
            NodeView(
                places.get(node.parent),
                node.start,
                node.end,
                node.use.time if node.use.stamp else None,
                node.use.superseded,
                node.locks > 0,
                marks.get(node, 0),
            )
        )
    return views, len(nodes) - len(views)


def _stamp(node: Node) -> int:
    """The latest use of any of its tokens, and so of all below: a path is used from its root on."""
    return max(use.stamp for use in (node.use, *(use for _, use in node.marks)))


def _below(root: Node) -> Iterator[Node]:
    waiting = list(root.children.values())
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children.values())


def _on_path(root: Node, path: bytes) -> Iterator[tuple[Node, int]]:
    """The nodes that the path runs through, and how many tokens of each it has."""
    if not path:
        return
    node, length = descend(root, path)
    while node.parent is not None:
        yield node, min(node.end, length) - node.start
        node = node.parent
