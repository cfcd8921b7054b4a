"""The K and V tensors of every page, in all layers. Knows no owner: pages are numbers here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from radixchat.engine.model_config import ModelConfig
from radixchat.kernels import ops
from radixchat.radix.allocation import PageCopy


class KVCache:
    """One tensor [layers, 2, pages, page_size, kv_heads, dim].

    It is zero at birth, and must be: a masked slot contributes 0 * its value, which is only 0 if
    the value is finite. On the CPU the zeros are the operating system's fresh pages, so a pool
    costs memory only for the pages that were ever used.
    """

    def __init__(
        self, config: ModelConfig, num_pages: int, page_size: int, dtype: torch.dtype, device: str
    ) -> None:
        shape = (
            config.num_layers,
            2,
            num_pages,
            page_size,
            config.num_kv_heads,
            config.head_dim,
        )
        if device == "cpu":
            # calloc, where torch.zeros would touch every page: 1.4 GiB in 0.3 s.
            raw = np.zeros(int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
            self.data = torch.from_numpy(raw).view(dtype).view(shape)
        else:
            self.data = torch.zeros(shape, dtype=dtype, device=device)
        self.page_size = page_size

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, each [pages, page_size, kv_heads, dim]."""
        return self.data[index, 0], self.data[index, 1]

    def copy(self, copies: Sequence[PageCopy]) -> None:
        """Perform the copies of partly shared pages; sources and destinations are disjoint."""
        if not copies:
            return
        sources = [c.source * self.page_size + i for c in copies for i in range(c.num_slots)]
        destinations = [
            c.destination * self.page_size + i for c in copies for i in range(c.num_slots)
        ]
        device = self.data.device
        ops.copy_slots(
            self.data,
            torch.tensor(sources, device=device),
            torch.tensor(destinations, device=device),
        )
