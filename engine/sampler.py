"""Logits to tokens, for all rows of a step at once.

Noise is a counter-based function of (seed, position): a request gives the same tokens alone, in
a batch, preempted or resumed. Knows logits and numbers; no request and no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from radixchat.engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What one row of logits needs: its parameters, and the position of the new token."""

    params: SamplingParams
    position: int


def sample(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token per row; logits fp32 [rows, vocab]. Ties go to the lowest token id."""
    assert logits.shape[0] == len(rows)
    tokens = logits.argmax(-1)
    drawn = [i for i, row in enumerate(rows) if row.params.temperature > 0]
    if drawn:
        picked = torch.tensor(drawn, device=logits.device)
        tokens[picked] = _draw(logits[picked], [rows[i] for i in drawn])
    result: list[int] = tokens.tolist()
    return result


def _draw(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Inverse-transform sampling over the sorted, filtered distribution; [rows] int64."""

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, device=logits.device, dtype=torch.float32).unsqueeze(1)

    params = [row.params for row in rows]
    vocabulary = logits.shape[1]
    # Subtracting the maximum first keeps a tiny temperature from overflowing to inf - inf.
    shifted = logits - logits.amax(-1, keepdim=True)
    scaled = shifted / column([p.temperature for p in params]).clamp_min(1e-6)
    probabilities = torch.softmax(scaled, dim=-1)
    # Tokens below (1 - top_p) / vocabulary weigh less than 1 - top_p together: top_p cuts every
    # one. Sorting without them takes 0.2 ms instead of 4 at 49,152 tokens and top_p 0.9; the
    # factor 2 is for rounding. What another row brings in sorts behind this row's kept tokens.
    floor = column([(1 - p.top_p) / (2 * vocabulary) for p in params])
    columns = (probabilities >= floor).any(0).nonzero().squeeze(1)
    probabilities, order = torch.sort(
        probabilities[:, columns], dim=-1, descending=True, stable=True
    )
    rank = torch.arange(len(columns), device=logits.device)
    top_k = column([float(p.top_k or vocabulary) for p in params])
    before = probabilities.cumsum(-1) - probabilities
    keep = (
        (rank < top_k)
        & (before < column([p.top_p for p in params]))
        & (probabilities >= column([p.min_p for p in params]) * probabilities[:, :1])
    )
    keep[:, 0] = True
    cumulative = torch.where(keep, probabilities, 0.0).double().cumsum(-1)
    noise = uniform_noise([p.seed for p in params], [row.position for row in rows])
    target = torch.from_numpy(noise).to(logits.device).unsqueeze(1) * cumulative[:, -1:]
    # Kept entries are a prefix of the sorted row, so the first cumulative sum above the target
    # is one of them; the clamp meets a target that rounds up to the whole mass.
    index = torch.searchsorted(cumulative, target, right=True)
    index = torch.minimum(index, keep.sum(-1, keepdim=True) - 1)
    return columns[order.gather(1, index).squeeze(1)]


def uniform_noise(seeds: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """Uniform in [0, 1), float64, a pure function of each (seed, position).

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014) applied to the seed's hash plus the
    position times the golden-ratio increment.
    """
    with np.errstate(over="ignore"):
        state = _mix(np.asarray(seeds, dtype=np.uint64))
        step = np.asarray(positions, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = _mix(state + step)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
