"""The interpreter's dot with one order of additions, for tests that compare bits.

It multiplies with NumPy, whose BLAS adds up a tile's rows in orders that depend on their place (row
31 of a tile of 32 and row 0 differ in their last bits). A GPU's instruction has one order for all.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray


def order_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here to the end of the test every dot adds up over k in order, one k after another."""
    monkeypatch.setattr(np, "matmul", _ordered)


def _ordered(
    a: NDArray[np.float32], b: NDArray[np.float32], dtype: DTypeLike = np.float32
) -> NDArray[np.float32]:
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for k in range(a.shape[1]):
        total += a[:, k, None].astype(dtype) * b[None, k].astype(dtype)
    return total
