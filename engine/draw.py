"""Draws tokens from what temperature, typical_p, top_k, top_p and min_p leave of a distribution.

Each cut is made on what the one before left, as if that were the whole. A row's token depends on
nothing of the other rows; sums that torch takes in an order of its own choosing are taken as
running sums instead. Knows logits and numbers; no request and no text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from radixchat.engine.noise import uniform_noise
from radixchat.engine.sample_row import SampleRow
from radixchat.engine.sampling_params import SamplingParams


def draw(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """One token per row, int64 [rows]; logits fp32 [rows, vocab], -inf for an excluded token."""
    params = [row.params for row in rows]
    # Subtracting the maximum first keeps a tiny temperature from overflowing to inf - inf.
    shifted = logits - logits.amax(-1, keepdim=True)
    temperatures = _column(logits, [p.temperature for p in params])
    weights = torch.softmax(shifted / temperatures.clamp_min(1e-6), dim=-1)
    wanted = [i for i, p in enumerate(params) if p.typical_p < 1]
    if wanted:
        weights[wanted] = typical(weights[wanted], [params[i] for i in wanted])
    noise = torch.from_numpy(uniform_noise([p.seed for p in params], [r.position for r in rows]))
    noise = noise.to(logits.device).unsqueeze(1)
    ranked = [i for i, p in enumerate(params) if p.top_k or p.top_p < 1]
    others = [i for i, p in enumerate(params) if not (p.top_k or p.top_p < 1)]
    tokens = torch.zeros(len(rows), dtype=torch.int64, device=logits.device)
    if ranked:
        kept, ids = _ranked(weights[ranked], [params[i] for i in ranked])
        tokens[ranked] = ids.gather(1, _invert(kept, noise[ranked])).squeeze(1)
    if others:
        least = _column(logits, [params[i].min_p for i in others])
        likely = weights[others]
        kept = likely.where(likely >= least * likely.amax(-1, keepdim=True), 0.0)
        tokens[others] = _invert(kept, noise[others]).squeeze(1)
    return tokens


def _ranked(weights: Tensor, params: Sequence[SamplingParams]) -> tuple[Tensor, Tensor]:
    """What top_k, top_p and min_p leave, most likely first, and its ids; both [rows, some]."""
    vocabulary = weights.shape[1]
    ks = torch.tensor([min(p.top_k or vocabulary, vocabulary) for p in params]).unsqueeze(1)
    ks = ks.to(weights.device)
    top_p = _column(weights, [p.top_p for p in params])
    # Tokens below (1 - top_p) / vocabulary weigh less than 1 - top_p together: top_p cuts every
    # one; the factor 2 is for rounding. top_k keeps none below its last.
    floor = (1 - top_p) / (2 * vocabulary)
    limits = [p.top_k for p in params if 0 < p.top_k < vocabulary]
    if limits:
        best = weights.topk(max(limits), dim=-1).values
        last = best.gather(1, ks.clamp_max(max(limits)) - 1)
        floor = torch.where(ks < vocabulary, last, floor)
    weights, ids = _at_least(weights, floor)
    weights, order = torch.sort(weights, dim=-1, descending=True, stable=True)
    running = weights.cumsum(-1)
    count = weights.shape[1]
    left = torch.where(ks < vocabulary, running.gather(1, ks.clamp_max(count) - 1), 1.0)
    keep = (
        (torch.arange(count, device=weights.device) < ks)
        & (running - weights < top_p * left)
        & (weights >= _column(weights, [p.min_p for p in params]) * weights[:, :1])
    )
    keep[:, 0] = True
    return weights.where(keep, 0.0), ids.gather(1, order)


def typical(weights: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """What typical_p leaves, as a distribution: the tokens whose surprise is nearest the entropy.

    Meister et al. 2022. weights: distributions, fp32 [rows, vocab].
    """
    typical_p = _column(weights, [p.typical_p for p in params])
    entropy = torch.special.entr(weights).double().cumsum(-1)[:, -1:].float()
    # A token below exp(-2 * entropy) is farther from the entropy than every likelier one, so the
    # last to be kept; and of those below the second bound there are not enough to get that far.
    floor = torch.minimum(torch.exp(-2 * entropy), (1 - typical_p) / weights.shape[1]) / 2
    some, ids = _at_least(weights, floor)
    distance = (-some.log() - entropy).abs()
    order = torch.sort(distance, dim=-1, stable=True).indices
    some, ids = some.gather(1, order), ids.gather(1, order)
    before = some.double().cumsum(-1) - some
    kept = some.where(before < typical_p, 0.0)
    kept = (kept / kept.double().cumsum(-1)[:, -1:]).float()
    return torch.zeros_like(weights).scatter_add(1, ids, kept)


def _at_least(weights: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of each row from its floor [rows, 1] on, and their ids, ascending.

    Both [rows, most of a row]; what a row lacks is weight 0 of token 0. Sorting these takes a small
    part of sorting the vocabulary: 0.2 ms instead of 4 at 49,152 tokens and top_p 0.9.
    """
    kept = (weights >= floor) & (weights > 0)
    counts = kept.sum(-1)
    rows, ids = kept.nonzero(as_tuple=True)
    places = torch.arange(len(rows), device=weights.device) - (counts.cumsum(0) - counts)[rows]
    shape = len(weights), int(counts.max())
    some, found = weights.new_zeros(shape), ids.new_zeros(shape)
    some[rows, places], found[rows, places] = weights[rows, ids], ids
    return some, found


def _invert(weights: Tensor, noise: Tensor) -> Tensor:
    """Where the running sum passes noise [rows, 1] of the whole; [rows, 1], never at a weight 0."""
    running = weights.double().cumsum(-1)
    # Noise is at most 1 - 2**-53, so in float64 its product with the whole is less than the whole.
    return torch.searchsorted(running, noise * running[:, -1:], right=True)


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return torch.tensor(values, device=like.device, dtype=torch.float32).unsqueeze(1)
