"""What changes in the logits of one row before the temperature: `LogitEdits`, a value.

Knows token ids; no request, no text and no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_IDS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """So much to add to the logits of some tokens: distinct ids int64 [n], amounts fp32 [n]."""

    ids: NDArray[np.int64]
    amounts: NDArray[np.float32]


NOTHING = Amounts(NO_IDS, np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class LogitEdits:
    """In the order in which they are done; arrays, so compared by identity.

    mask: uint32, token i is allowed iff bit i % 32 of word i // 32 is set. banned: ids that may
    not come. repeated: ids whose logit the repetition penalty divides or multiplies.
    """

    mask: NDArray[np.uint32] | None
    banned: NDArray[np.int64]
    bias: Amounts
    repeated: NDArray[np.int64]
    repetition_penalty: float
    counted: Amounts  # presence and frequency
    dry: Amounts
