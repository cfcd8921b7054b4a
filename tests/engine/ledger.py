"""`Ledger`: what was computed after each prefix, and where it was not the same to the bit again.

Logits after a position and K and V of a position are functions of the tokens up to it, or should
be: whoever computes any notes them here. Knows tokens and tensors; no engine and no cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass(slots=True)
class Ledger:
    """The first value noted of each kind for each prefix, and what became of later ones.

    compared: how many were noted again. differing: kind and length of prefix of those that were
    not equal to the first.
    """

    values: dict[tuple[str, bytes], Tensor] = field(default_factory=dict)
    compared: int = 0
    differing: list[tuple[str, int]] = field(default_factory=list)

    def note(
        self, kind: str, tokens: Sequence[int], positions: Sequence[int], rows: Tensor
    ) -> None:
        """Row i of rows, any shape beyond the first dimension, belongs to positions[i]."""
        assert len(positions) == len(rows), "a row for each position"
        prefix = np.asarray(tokens, dtype=np.int32).tobytes()
        for position, row in zip(positions, rows, strict=True):
            key = (kind, prefix[: 4 * (position + 1)])
            known = self.values.get(key)
            if known is None:
                self.values[key] = row.clone()
                continue
            self.compared += 1
            if not torch.equal(known, row):
                self.differing.append((kind, position + 1))

    def knows(self, kind: str, tokens: Sequence[int]) -> bool:
        """Whether something of this kind is known of this very prefix."""
        return (kind, np.asarray(tokens, dtype=np.int32).tobytes()) in self.values
