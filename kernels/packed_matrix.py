"""A weight matrix as the CPU's products read it: panels of outputs, codes and group scales.

Skeleton until the products land: the names are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """[out_features, in_features]."""

    out_features: int
    in_features: int
    codes: Tensor


Matrix = Tensor | PackedMatrix
