"""A weight matrix as the CPU's products read it: panels of outputs, codes and group scales.

Owns the value and its description for compiled code; `kernels/cpu_panels.py` draws the layout
and `kernels/cpu_pack.py` fills it. Imports without Numba, as every device names the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixchat.kernels import cpu_panels as panels

Format = Literal["fp32", "int8", "uint4"]


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """[out_features, in_features] in panels of 32 outputs, on the CPU.

    A weight is `code * scale + minimum`, rounded once; without minima `code * scale`, and the
    codes of uint4 then count from -8.

    group: inputs that share a scale; 0 for fp32.
    codes: fp32 [panels, in, 32], int8 [panels, in, 32] or uint8 [panels, in, 16]; quantised
        inputs are padded to whole groups.
    scales, minima: fp16 or fp32 [panels, groups, 32].
    """

    out_features: int
    in_features: int
    format: Format
    group: int
    codes: Tensor
    scales: Tensor | None = None
    minima: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(out_features, in_features), as a dense weight has it."""
        return self.out_features, self.in_features

    @property
    def num_bytes(self) -> int:
        """What a product with one row reads."""
        return sum(
            part.nbytes for part in (self.codes, self.scales, self.minima) if part is not None
        )

    def describe(self) -> NDArray[np.int64]:
        """Addresses and sizes for compiled code; valid while this value lives."""
        fields = np.zeros(panels.MATRIX_FIELDS, np.int64)
        fields[panels.FORMAT] = self._code_kind()
        fields[panels.OUT_FEATURES] = self.out_features
        fields[panels.IN_FEATURES] = self.in_features
        fields[panels.GROUP] = self.group
        fields[panels.CODES] = self.codes.data_ptr()
        fields[panels.CODE_STRIDE] = self.codes.stride(0) * self.codes.element_size()
        if self.scales is not None:
            fields[panels.SCALES] = self.scales.data_ptr()
            fields[panels.SCALE_STRIDE] = self.scales.stride(0) * self.scales.element_size()
            fields[panels.HALVES] = self.scales.dtype == torch.float16
        if self.minima is not None:
            fields[panels.MINIMA] = self.minima.data_ptr()
        return fields

    def _code_kind(self) -> int:
        if self.format == "fp32":
            return panels.FP32
        if self.format == "int8":
            return panels.INT8
        return panels.UINT4 if self.minima is not None else panels.INT4


Matrix = Tensor | PackedMatrix
