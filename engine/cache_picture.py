"""`CachePicture`: one namespace's part of the cache at one moment, for people. A frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.radix.picture import NodeView


@dataclass(frozen=True, slots=True)
class CachePicture:
    """The nodes, parents first; left_out: how many there are more; now: on the views' clock.

    pool_tokens: as many fit the whole pool; cached_tokens: of all namespaces; free_tokens: of the
    pages that nobody has.
    """

    nodes: tuple[NodeView, ...]
    left_out: int
    now: float
    pool_tokens: int
    cached_tokens: int
    free_tokens: int
