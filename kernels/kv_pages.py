"""The K and V of every page: how they lie in memory, per layer and as a whole.

Knows no owner: pages are numbers here. One logical shape on every device,
[pages, kv_heads, page_size, dim]; what differs is the order in memory. On the CPU a page of K lies
dimension by dimension, [dim, page_size], so that 16 neighbouring positions fill a vector and a
score needs no sum across lanes; on a GPU it lies position by position, as V does everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

SCALE_DTYPE = torch.float16


@dataclass(frozen=True, slots=True)
class KVLayer:
    """K and V of one layer.

    k, v: [pages, kv_heads, page_size, dim], any strides. k_scale, v_scale: None, or for int8 codes
    fp16 [pages, kv_heads, page_size]: a number is its code times the scale of its token and head.
    """

    k: Tensor
    v: Tensor
    k_scale: Tensor | None = None
    v_scale: Tensor | None = None

    @property
    def page_size(self) -> int:
        """Positions a page."""
        return self.k.shape[2]


@dataclass(frozen=True, slots=True)
class KVPages:
    """K and V of all layers: as in KVLayer, with the layers as first dimension."""

    k: Tensor
    v: Tensor
    k_scale: Tensor | None
    v_scale: Tensor | None

    def layer(self, index: int) -> KVLayer:
        """Views of one layer."""
        scales = (None if s is None else s[index] for s in (self.k_scale, self.v_scale))
        return KVLayer(self.k[index], self.v[index], *scales)

    def parts(self) -> list[Tensor]:
        """The tensors there are, each [layers, pages, kv_heads, page_size, ...]."""
        return [t for t in (self.k, self.v, self.k_scale, self.v_scale) if t is not None]

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages."""
        return sum(part.numel() * part.itemsize for part in self.parts())

    def copy_slots(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """For each (source page, destination page, n) copy its first n slots, in all layers.

        No destination is the source or destination of another copy.
        """
        for source, destination, count in copies:
            for part in self.parts():
                part[:, destination, :, :count] = part[:, source, :, :count]


def empty_pages(
    num_layers: int,
    num_pages: int,
    num_kv_heads: int,
    page_size: int,
    head_dim: int,
    dtype: torch.dtype,
    device: str,
) -> KVPages:
    """Pages full of zeros; dtype torch.int8 comes with scales.

    They are zero at birth, and must be: a masked slot contributes 0 * its value, which is only 0
    if the value is finite. On the CPU the zeros are the operating system's fresh pages, so a pool
    costs memory only for the pages that were ever used.
    """
    heads = (num_layers, num_pages, num_kv_heads)
    by_position = (*heads, page_size, head_dim)
    if device == "cpu":
        k = _zeros((*heads, head_dim, page_size), dtype, device).transpose(-1, -2)
    else:
        k = _zeros(by_position, dtype, device)
    scales = [
        _zeros((*heads, page_size), SCALE_DTYPE, device) if dtype == torch.int8 else None
        for _ in range(2)
    ]
    return KVPages(k, _zeros(by_position, dtype, device), *scales)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    if device != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    # calloc, where torch.zeros would touch every page: 1.4 GiB in 0.3 s.
    raw = np.zeros(int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).view(shape)
