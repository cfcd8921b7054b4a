"""`Forwards`: one forward pass after another, of any rows of any requests, without an engine.

Its pages hold garbage where nothing was stored, and each request's lie in random order. Knows a
decoder; no scheduler and no cache.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.model import Decoder
from radixchat.kernels import ops


@dataclass(frozen=True, slots=True)
class Chunk:
    """Positions start..end of a request whose tokens are known up to end, and its pages."""

    tokens: Sequence[int]
    start: int
    end: int
    table: Sequence[int]


class Forwards:
    """A decoder over its own pool of pages."""

    def __init__(
        self, decoder: Decoder, kv_dtype: torch.dtype, page_size: int, num_pages: int
    ) -> None:
        self._decoder = decoder
        self._page_size = page_size
        config = decoder.config
        heads, dim = config.num_kv_heads, config.head_dim
        self.pages = ops.empty_pages(
            config.num_layers, num_pages, heads, page_size, dim, kv_dtype, "cpu"
        )
        for part in self.pages.parts():
            part.copy_(torch.full(part.shape, 77, dtype=part.dtype))
        self._free = list(range(num_pages))
        random.Random(0).shuffle(self._free)

    def table(self, length: int) -> list[int]:
        """Pages of its own for so many tokens."""
        count = -(-length // self._page_size)
        assert count <= len(self._free)
        return [self._free.pop() for _ in range(count)]

    @torch.inference_mode()
    def __call__(self, *chunks: Chunk) -> list[Tensor]:
        """The logits of every row of each chunk, all computed in one step."""
        tokens = [token for c in chunks for token in c.tokens[c.start : c.end]]
        positions = [position for c in chunks for position in range(c.start, c.end)]
        counts = [chunk.end - chunk.start for chunk in chunks]
        padding = [0] * (-len(tokens) % self._decoder.row_alignment)
        num_rows = len(tokens) + len(padding)
        step = ops.ragged(
            counts,
            [chunk.end for chunk in chunks],
            [chunk.table for chunk in chunks],
            self._page_size,
            num_rows,
            "cpu",
        )
        batch = Batch(
            tokens=torch.tensor(tokens + padding),
            positions=torch.tensor(positions + padding),
            step=step,
            logit_rows=torch.arange(len(tokens)),
        )
        logits = self._decoder(batch, self.pages)
        return [logits[end - n : end] for n, end in zip(counts, accumulate(counts), strict=True)]

    def stored(self, table: Sequence[int], length: int) -> list[Tensor]:
        """K, V and for int8 their scales of the first positions, each [layers, tokens, ...]."""
        pages, offsets = self._places(table, length)
        return [part.transpose(2, 3)[:, pages, offsets] for part in self.pages.parts()]

    def restore(self, table: Sequence[int], stored: Sequence[Tensor]) -> None:
        """Store again what was read, as of the first positions."""
        pages, offsets = self._places(table, stored[0].shape[1])
        for part, values in zip(self.pages.parts(), stored, strict=True):
            part.transpose(2, 3)[:, pages, offsets] = values

    def _places(self, table: Sequence[int], length: int) -> tuple[Tensor, Tensor]:
        where = torch.arange(length)
        return torch.tensor(table)[where // self._page_size], where % self._page_size


@dataclass(frozen=True, slots=True)
class Computed:
    """Logits [tokens, vocab] and what was stored, in a form that equality to the bit needs."""

    logits: Tensor
    stored: list[Tensor]

    def equals(self, other: Computed) -> bool:
        """Whether all of it is the same to the bit."""
        return all(map(torch.equal, (self.logits, *self.stored), (other.logits, *other.stored)))


def in_chunks(
    forwards: Forwards, tokens: Sequence[int], cuts: Sequence[int], begun: Computed | None = None
) -> Computed:
    """All tokens, computed in chunks that end at the cuts; what has begun is not done again."""
    table = forwards.table(len(tokens))
    done = 0
    if begun is not None:
        done = len(begun.logits)
        forwards.restore(table, begun.stored)
    logits = [
        forwards(Chunk(tokens, start, end, table))[0]
        for start, end in pairwise([done, *cuts, len(tokens)])
    ]
    if begun is not None:
        logits.insert(0, begun.logits)
    return Computed(torch.cat(logits), forwards.stored(table, len(tokens)))
