"""Which rows of a step belong to which request, and which pages each request reads.

Built once per step and shared by all layers. Knows no token and no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ragged:
    """The shape of one step, on the device, and on the host for whoever plans the work.

    Request i owns rows starts[i]:starts[i + 1], which are the last of its lengths[i] positions;
    rows from starts[-1] on are padding.
    query_starts: int32 [requests + 1]; kv_lengths: int32 [requests]; page_tables: int32
    [requests, most pages of any], zeros behind a shorter one; slots: int64 [rows], where a row's K
    and V go (page * page_size + offset), -1 for padding. starts, lengths: the first two on the
    host.
    """

    query_starts: Tensor
    kv_lengths: Tensor
    page_tables: Tensor
    slots: Tensor
    starts: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @property
    def num_requests(self) -> int:
        """Requests in the step."""
        return len(self.lengths)

    @property
    def num_rows(self) -> int:
        """Rows that belong to requests, without the padding."""
        return int(self.starts[-1])


def ragged(
    counts: Sequence[int],
    lengths: Sequence[int],
    tables: Sequence[Sequence[int]],
    page_size: int,
    num_rows: int,
    device: str,
) -> Ragged:
    """The step in which request i computes its last counts[i] of lengths[i] positions.

    tables[i]: its pages in order, at least as many as its positions need; num_rows: with padding.
    """
    starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int32)), dtype=np.int32)
    kv_lengths = np.asarray(lengths, dtype=np.int32)
    pages = np.zeros((len(tables), max(map(len, tables), default=0)), dtype=np.int32)
    slots = np.full(num_rows, -1, dtype=np.int64)
    for i, table in enumerate(tables):
        pages[i, : len(table)] = table
        positions = np.arange(lengths[i] - counts[i], lengths[i])
        where = pages[i, positions // page_size].astype(np.int64)
        slots[starts[i] : starts[i + 1]] = where * page_size + positions % page_size
    return Ragged(
        query_starts=torch.from_numpy(starts).to(device, non_blocking=True),
        kv_lengths=torch.from_numpy(kv_lengths).to(device, non_blocking=True),
        page_tables=torch.from_numpy(pages).to(device, non_blocking=True),
        slots=torch.from_numpy(slots).to(device, non_blocking=True),
        starts=starts,
        lengths=kv_lengths,
    )
