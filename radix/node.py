"""`Node`: a run of tokens on one path, and the pages that hold them. It does not know the tree.

A node spans the tokens [start, end) of one path and holds one reference on every page that
its span touches. Spans are cut at any token, so several nodes of one path may touch one page
index; each holds a page of its own there, or shares one:

    page size 4         page index 0      page index 1      page index 2
    X  [0, 6)           page 7: x x x x   page 3: x x . .
    Y  [6, 9) below X                     page 5: x x y y   page 8: y . . .

Y's first page begins with X's last tokens: its writer had copied them, or had written them
itself (then X and Y share one page). So the rule that everything here rests on: **the page of
a node at an index holds all tokens of its path at that index, up to the end of the node.** For
a position matched through several nodes the page to read is that of the deepest one.

Pages shared by nodes are always shared along one path, because a page has one writer and a
writer appends to one sequence.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace

import numpy as np

from radixchat.radix.use import UNUSED, Use

TOKEN_BYTES = 4
_TOKEN = struct.Struct("i")


class Node:
    """A run of tokens, and the pages that hold them.

    key: its tokens, int32, as bytes: `startswith` compares them at memcmp speed without a
    slice, and they grow and shrink in place. pages: one for each page index that the span
    touches, first to last. locks: live allocations that hold it or something below it.
    use: the last use of the page at its tip; marks: (page index, use) pairs, pages below that
    index were last in another use, not an earlier one (merged nodes remember).
    ticket: its entry in the eviction order, 0 when it has none.
    """

    __slots__ = (
        "children",
        "key",
        "locks",
        "marks",
        "pages",
        "parent",
        "root",
        "start",
        "ticket",
        "use",
    )

    root: Root
    children: dict[int, Node]

    def __init__(self, start: int, key: bytearray, pages: array[int], parent: Node | None) -> None:
        self.start = start
        self.key = key
        self.pages = pages
        self.parent = parent
        if parent is not None:
            self.root = parent.root
        self.children = NO_CHILDREN
        self.locks = 0
        self.use = UNUSED
        self.marks: tuple[tuple[int, Use], ...] = ()
        self.ticket = 0

    @property
    def end(self) -> int:
        """The position after its last token."""
        return self.start + len(self.key) // TOKEN_BYTES

    @property
    def first(self) -> int:
        """Its first token, under which its parent finds it."""
        token: int = _TOKEN.unpack_from(self.key)[0]
        return token

    def use_again(self, use: Use) -> Use:
        """Record that all of its tokens were in `use`, if those below were; returns its head's."""
        use = use.following(self.use)
        marks: list[tuple[int, Use]] = []
        self.use = use
        for index, prior in reversed(self.marks):
            if (head := use.following(prior)) is not use:
                marks.append((index, head))
                use = head
        self.marks = tuple(reversed(marks))
        return use

    def only_used_by(self, conversation: str, page_size: int) -> int:
        """The position from which on no other conversation has used its tokens."""
        position, use = self.end, self.use
        for index, above in reversed(((self.start // page_size, UNUSED), *self.marks)):
            if use.conversation != conversation or use.shared:
                break
            position, use = max(self.start, index * page_size), above
        return position

    def supersede(self, border: int, page_size: int) -> None:
        """Mark its pages from index `border` on as left by the conversation that used them."""
        begin = self.start // page_size
        marks = [mark for mark in self.marks if mark[0] <= border]
        if (marks[-1][0] if marks else begin) < border:
            marks.append((border, next((u for i, u in self.marks if i > border), self.use)))
        for index, use in self.marks:
            if index > border:
                marks.append((index, replace(use, superseded=True)))
        self.use, self.marks = replace(self.use, superseded=True), tuple(marks)


# What every leaf shares, to be replaced and never filled: an empty dict of its own takes 64 bytes.
NO_CHILDREN: dict[int, Node] = {}


class Root(Node):
    """The empty prefix of one namespace. num_tokens: those of all nodes below."""

    __slots__ = ("namespace", "num_tokens")

    def __init__(self, namespace: bytes) -> None:
        super().__init__(0, bytearray(), array("i"), None)
        self.root = self
        self.namespace = namespace
        self.num_tokens = 0


def descend(node: Node, tokens: bytes) -> tuple[Node, int]:
    """Follow int32 `tokens` below the end of `node`; changes nothing.

    Returns the deepest node with a matching token, or `node`, and how many tokens matched.
    """
    ids = memoryview(tokens).cast("i")
    length = 0
    while length < len(ids) and (child := node.children.get(ids[length])) is not None:
        node = child
        if not tokens.startswith(child.key, length * TOKEN_BYTES):
            return node, length + common_length(child.key, tokens, length)
        length += len(child.key) // TOKEN_BYTES
    return node, length


def common_length(left: bytes | bytearray, right: bytes, offset: int = 0) -> int:
    """How many leading int32 tokens of `left` equal those of `right` from token `offset` on.

    Neither is empty there.
    """
    longest = min(len(left), len(right) - offset * TOKEN_BYTES) // TOKEN_BYTES
    ours = np.frombuffer(left, np.int32, longest)
    differs = ours != np.frombuffer(right, np.int32, longest, offset * TOKEN_BYTES)
    index = int(differs.argmax())
    return index if differs[index] else longest
