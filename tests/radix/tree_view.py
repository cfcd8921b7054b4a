"""`TreeView`: what a tree holds at one moment, in prefixes, which a model can be compared with.

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
class HeldPage:
    """What one node keeps in one page.

    path: all tokens of the page, as prefixes, up to the end of the node. own: those of them that
    are the node's own.
    """

    node: Node
    page: int
    index: int
    path: list[int]
    own: list[int]


class TreeView:
    """nodes: each with the prefixes of its path, parents first, roots too. pages: of all nodes."""

    def __init__(self, tree: RadixTree, numbers: PrefixNumbers) -> None:
        self.page_size = tree.page_size
        self.nodes: list[tuple[list[int], Node]] = []
        paths: dict[Node, list[int]] = {}
        for node in tree.nodes():
            if node.parent is None:
                paths[node] = []
            else:
                above = paths[node.parent]
                begin = above[-1] if above else tree.path(node)[0]
                paths[node] = above + numbers.of_encoded(bytes(node.key), begin)
            self.nodes.append((paths[node], node))
        self.pages = list(self._held_pages())
        self.contents: dict[int, set[int]] = {}  # of each page the prefixes of any node's own
        for held in self.pages:
            self.contents.setdefault(held.page, set()).update(held.own)
        self.prefixes: set[int] = set().union(*self.contents.values())

    def _held_pages(self) -> Iterator[HeldPage]:
        size = self.page_size
        for path, node in self.nodes:
            for index, page in enumerate(node.pages, node.start // size):
                begin = index * size
                held = path[begin : begin + size]
                yield HeldPage(node, page, index, held, held[max(0, node.start - begin) :])

    def uses(self) -> Iterator[tuple[Use, list[int]]]:
        """For each page of an unheld node: its last use, and the prefixes of the node's own."""
        for held in self.pages:
            if held.node.locks == 0:
                marks = held.node.marks
                use = next((use for index, use in marks if held.index < index), held.node.use)
                yield use, held.own

    def pinned(self, matched: set[int]) -> set[int]:
        """Pages that are not to be had while these prefixes are matched."""
        return {
            held.page for held in self.pages if held.node.locks or not matched.isdisjoint(held.own)
        }
