"""Leaves without a tree, for tests of what decides among them."""

from __future__ import annotations

from array import array

from radixchat.radix.node import TOKEN_BYTES, Node
from radixchat.radix.use import Use


def make_leaf(use: Use, num_tokens: int = 4, page_size: int = 4) -> Node:
    """A leaf of `num_tokens` tokens from position 0 that was last in use at `use`."""
    num_pages = -(-num_tokens // page_size)
    leaf = Node(0, bytearray(num_tokens * TOKEN_BYTES), array("i", range(num_pages)), None)
    leaf.use = use
    return leaf
