"""`PageBytes`: one page of the pool as a row of bytes, and back.

    pool    layer-first    K [layers, pages, …]   V [layers, pages, …]   scales, if there are
    bytes   page-first     K of all layers │ V of all layers │ scales        of one page

So a page below the pool is one piece: one copy in memory, one read of a file. The bits are the
same, and in the order in which the pool's memory has them (a CPU's K is transposed). Knows no tier.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixchat.kernels import ops

Row = NDArray[np.uint8]


class PageBytes:
    """Reads and writes pages of one pool. num_bytes: those of one page."""

    def __init__(self, pages: ops.KVPages) -> None:
        self._parts = [_chunks(part) for part in pages.parts()]
        ends = [0, *accumulate(part.shape[0] * part.shape[2] for part in self._parts)]
        self._spans = list(pairwise(ends))
        self.num_bytes = ends[-1]

    def read(self, page: int, row: Row) -> None:
        """Copy a page into a row of num_bytes."""
        for part, piece in zip(self._parts, self._pieces(row), strict=True):
            if part.is_cpu:
                # numpy copies with this thread alone; torch's wait for each other where another
                # program has a core.
                np.copyto(piece, part[:, page].numpy())
            else:
                torch.from_numpy(piece).copy_(part[:, page])

    def write(self, page: int, row: Row) -> None:
        """Copy a row that was read into a page."""
        for part, piece in zip(self._parts, self._pieces(row), strict=True):
            if part.is_cpu:
                np.copyto(part[:, page].numpy(), piece)
            else:
                part[:, page].copy_(torch.from_numpy(piece))

    def _pieces(self, row: Row) -> list[NDArray[np.uint8]]:
        """A row as [layers, bytes of a layer] for each part."""
        assert row.nbytes == self.num_bytes, f"{row.nbytes} bytes are no page"
        return [
            row[start:end].reshape(part.shape[0], part.shape[2])
            for part, (start, end) in zip(self._parts, self._spans, strict=True)
        ]


def _chunks(part: Tensor) -> Tensor:
    """The part as bytes, [layers, pages, bytes of a page in a layer]; a view."""
    lies = part if part[0, 0].is_contiguous() else part.transpose(-1, -2)
    assert lies[0, 0].is_contiguous(), "a page of a layer is one piece"
    return lies.flatten(2).view(torch.uint8)
