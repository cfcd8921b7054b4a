"""Does what the `LogitEdits` of a step's rows say, all rows in one operation a kind.

Python runs once per row and never per token of the vocabulary or of a history. Knows logits and
token ids; no request and no text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixchat.engine.logit_edits import Amounts, LogitEdits


def edited_logits(logits: Tensor, edits: Sequence[tuple[int, LogitEdits]]) -> Tensor:
    """The logits, fp32 [rows, vocab], after the edits of some rows; excluded tokens are -inf.

    `logits` itself is left alone.
    """
    edited = logits.clone()
    masks = [(row, edit.mask) for row, edit in edits if edit.mask is not None]
    if masks:
        words = np.stack([mask for _, mask in masks]).astype("<u4").view(np.uint8)
        allowed = np.unpackbits(words, axis=1, count=logits.shape[1], bitorder="little")
        rows = torch.tensor([row for row, _ in masks], device=logits.device)
        excluded = torch.from_numpy(allowed == 0).to(logits.device)
        edited[rows] = edited[rows].masked_fill(excluded, -math.inf)
    banned = _entries(logits, [(row, edit.banned) for row, edit in edits])
    if banned is not None:
        edited[banned] = -math.inf
    _add(edited, [(row, edit.bias) for row, edit in edits])
    _penalise_repetition(edited, edits)
    _add(edited, [(row, edit.counted) for row, edit in edits])
    _add(edited, [(row, edit.dry) for row, edit in edits])
    return edited


def _entries(
    logits: Tensor, parts: Sequence[tuple[int, NDArray[np.int64]]]
) -> tuple[Tensor, Tensor] | None:
    """The (row, id) of every part in one index; None where there is none."""
    ids = np.concatenate([part for _, part in parts])
    if not len(ids):
        return None
    rows = np.repeat([row for row, _ in parts], [len(part) for _, part in parts])
    return torch.from_numpy(rows).to(logits.device), torch.from_numpy(ids).to(logits.device)


def _add(logits: Tensor, parts: Sequence[tuple[int, Amounts]]) -> None:
    where = _entries(logits, [(row, part.ids) for row, part in parts])
    if where is not None:
        amounts = np.concatenate([part.amounts for _, part in parts])
        logits[where] = logits[where] + torch.from_numpy(amounts).to(logits.device)


def _penalise_repetition(logits: Tensor, edits: Sequence[tuple[int, LogitEdits]]) -> None:
    """Keskar et al. 2019; the ids of a row are distinct."""
    where = _entries(logits, [(row, edit.repeated) for row, edit in edits])
    if where is not None:
        penalty = torch.tensor(
            np.repeat(
                np.array([edit.repetition_penalty for _, edit in edits], dtype=np.float32),
                [len(edit.repeated) for _, edit in edits],
            ),
            device=logits.device,
        )
        values = logits[where]
        logits[where] = torch.where(values > 0, values / penalty, values * penalty)
