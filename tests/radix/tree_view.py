"""`TreeView`: what a tree held at one moment, in prefixes, which a model can be compared with.

One walk serves everything that is checked after an operation. Nodes are read, never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from radixchat.radix.node import Node
from radixchat.radix.tree import RadixTree
from radixchat.radix.use import Use
from radixchat.tests.radix.prefix_numbers import PrefixNumbers


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """A node as it was: path: all prefixes down to its end. own: those that end in it.

    uses: its runs of pages by their last use, each with the node's own prefixes; none while it
    is locked, for then it is in use.
    """

    node: Node
    path: list[int]
    start: int
    pages: list[int]
    locks: int
    is_leaf: bool
    uses: list[tuple[Use, list[int]]]

    @property
    def own(self) -> list[int]:
        """The prefixes that end in it."""
        return self.path[self.start :]


class TreeView:
    """nodes: parents first, roots too. prefixes: of all nodes."""

    def __init__(self, tree: RadixTree, numbers: PrefixNumbers) -> None:
        self.page_size = tree.page_size
        self.nodes: list[NodeView] = []
        paths: dict[Node, list[int]] = {}
        for node in tree.nodes():
            if node.parent is None:
                path = paths[node] = []
            else:
                above = paths[node.parent]
                begin = above[-1] if above else tree.path(node)[0]
                path = paths[node] = above + numbers.of_encoded(bytes(node.key), begin)
            pages = node.pages.tolist()
            uses = [] if node.locks else self._uses(node, path)
            view = NodeView(node, path, node.start, pages, node.locks, not node.children, uses)
            self.nodes.append(view)
        self.prefixes: set[int] = set().union(*(view.own for view in self.nodes))

    def _uses(self, node: Node, path: list[int]) -> list[tuple[Use, list[int]]]:
        """Pages below the index of a mark were last in its use."""
        size, begin = self.page_size, node.start
        uses: list[tuple[Use, list[int]]] = []
        for index, use in node.marks:
            uses.append((use, path[begin : index * size]))
            begin = index * size
        if node.parent is not None:
            uses.append((node.use, path[begin:]))
        return uses

    def uses(self) -> Iterator[tuple[Use, list[int]]]:
        """The last use of each run of pages in unheld nodes, and the prefixes that it is of."""
        for view in self.nodes:
            yield from view.uses

    def held_pages(self) -> Iterator[tuple[int, list[int]]]:
        """Each page of each node, and what must be in it: all of the path at that index."""
        size = self.page_size
        for view in self.nodes:
            begin = view.start - view.start % size
            for page in view.pages:
                yield page, view.path[begin : begin + size]
                begin += size

    def contents(self) -> dict[int, set[int]]:
        """Of each page the prefixes for which some node keeps it."""
        size = self.page_size
        contents: dict[int, set[int]] = {}
        for view in self.nodes:
            for index, page in enumerate(view.pages, view.start // size):
                own = view.path[max(view.start, index * size) : (index + 1) * size]
                contents.setdefault(page, set()).update(own)
        return contents

    def pinned(self, matched: list[int]) -> set[int]:
        """Pages that are not to be had while this path is matched."""
        size, pages, wanted = self.page_size, set[int](), set(matched)
        for view in self.nodes:
            if view.locks:
                pages.update(view.pages)
            elif not wanted.isdisjoint(view.own):
                end = min(len(matched), len(view.path))
                pages.update(view.pages[: -(-end // size) - view.start // size])
        return pages
