"""What the device can do at best: bytes and matrix operations a second, measured before all else.

Random numbers throughout: a product of zeros is faster than any other. Knows no kernel of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from radixchat.bench.gpu_clock import Clock

# Bytes a second by the vendor's datasheet, by a part of the device's name; others are measured.
DATASHEET_BANDWIDTH: Mapping[str, float] = MappingProxyType(
    {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.04e12}
)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Bytes a second copied (read and written ones) and read; operations a second of a product.

    bandwidth: what shares of the memory's bandwidth refer to, the datasheet's where it is known.
    """

    copied: float
    read: float
    operations: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class CeilingLoad:
    """Bytes of a buffer, and the size of square matrices."""

    num_bytes: int
    matrix: int
    repeats: int


FULL = CeilingLoad(num_bytes=4 << 30, matrix=8192, repeats=20)
DRY = CeilingLoad(num_bytes=1 << 20, matrix=64, repeats=3)


def measure_ceilings(clock: Clock, load: CeilingLoad, dtype: torch.dtype, name: str) -> Ceilings:
    """The ceilings of the clock's device. name: the device's."""
    count = load.num_bytes // 4
    source = torch.rand(count, device=clock.device)
    copy_ms = _copy_ms(clock, source, load.repeats)
    # The sum of a row each, so that every multiprocessor has its own.
    rows = source.view(-1, min(count, 1 << 16))
    read_ms = clock.median_ms(lambda: rows.amax(1), load.repeats)
    n = load.matrix
    left, right = (torch.randn(n, n, device=clock.device).to(dtype) for _ in range(2))
    product_ms = clock.median_ms(lambda: left @ right, load.repeats)
    read = load.num_bytes / read_ms * 1e3
    copied = 2 * load.num_bytes / copy_ms * 1e3
    known = [value for part, value in DATASHEET_BANDWIDTH.items() if part in name]
    return Ceilings(
        copied=copied,
        read=read,
        operations=2 * n**3 / product_ms * 1e3,
        bandwidth=known[0] if known else max(copied, read),
    )


def _copy_ms(clock: Clock, source: Tensor, repeats: int) -> float:
    target = torch.empty_like(source)
    return clock.median_ms(lambda: target.copy_(source), repeats)
