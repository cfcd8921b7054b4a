# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
"""Triton: a token for each row of logits, in one launch, with nothing read back.

Temperature, top_k, top_p and min_p mean what they mean to the engine's own draw, and the noise is
the same function of seed and position: the token is the one that it would draw, but for weights
that rounding puts on the other side of a cut. A program takes one row, whatever the others are.
Knows numbers; no request and no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from radixchat.kernels.triton_ranking import (
    LAST_ID,
    key_id,
    least_of_best,
    mass_from,
    search,
    uniform,
    weight_key,
)

# Logits that a program takes at a time, and the largest top_k that does not take the whole row for
# its candidates; candidates that are compared with 16 keys at a time: 4,096 fp64, which
# are 32 registers of a thread.
_BLOCK = 2048
_CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class SamplingRows:
    """Each row's parameters, on the device.

    counts: int64 [3, rows]: seed, position, top_k (0 is off). numbers: fp32 [3, rows]: temperature
    (0 is greedy), top_p (1 is off), min_p (0 is off).
    """

    counts: Tensor
    numbers: Tensor


def sampling_rows(
    seeds: Sequence[int],
    positions: Sequence[int],
    temperatures: Sequence[float],
    top_ks: Sequence[int],
    top_ps: Sequence[float],
    min_ps: Sequence[float],
    device: str,
) -> SamplingRows:
    """One value a row in each; two transfers."""
    most = 2**31 - 1  # more than any vocabulary
    counts = torch.tensor([list(seeds), list(positions), [min(k, most) for k in top_ks]])
    numbers = torch.tensor([list(temperatures), list(top_ps), list(min_ps)], dtype=torch.float32)
    return SamplingRows(counts.to(device, non_blocking=True), numbers.to(device, non_blocking=True))


@triton.jit(do_not_specialize=["rows"])
def sample_kernel(
    logits: tl.tensor,
    stride: tl.tensor,
    vocabulary: tl.tensor,
    counts: tl.tensor,
    numbers: tl.tensor,
    rows: tl.tensor,
    weights: tl.tensor,
    ids: tl.tensor,
    tokens: tl.tensor,
    BLOCK: tl.constexpr,
    CANDIDATES: tl.constexpr,
) -> None:
    """One row a program; weights and ids [rows, vocabulary] are scratch."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    weights += row * vocabulary
    ids += row * vocabulary
    temperature = tl.load(numbers + row)
    tops, best, possible = _tops(logits, vocabulary, BLOCK)
    token = best.to(tl.int64)
    if possible == 0:
        token = tl.full((), -1, tl.int64)
    elif temperature > 0:
        top = tl.max(tops, 0)
        noise = uniform(tl.load(counts + row), tl.load(counts + rows + row))
        top_k = tl.load(counts + 2 * rows + row)
        top_p = tl.load(numbers + rows + row)
        min_p = tl.load(numbers + 2 * rows + row)
        scale = tl.maximum(temperature, 1e-6)
        if (top_k > 0) | (top_p < 1):
            token = _ranked(
                logits, vocabulary, tops, top, scale, top_k, top_p, min_p, noise, weights, ids,
                BLOCK, CANDIDATES,
            )  # fmt: skip
        else:
            token = _in_order(logits, vocabulary, top, scale, min_p, noise, BLOCK)
    tl.store(tokens + row, token)


@triton.jit
def _tops(
    logits: tl.tensor, vocabulary: tl.tensor, BLOCK: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The largest logit of each lane, the lowest id of the largest of all, and whether a token can
    be chosen at all: 0 for a row with NaN or inf, or of nothing but -inf."""
    tops = tl.full((BLOCK,), float("-inf"), tl.float32)
    places = tl.zeros((BLOCK,), tl.int32)
    wrong = tl.zeros((BLOCK,), tl.int32)
    start = 0
    while start < vocabulary:
        at = start + tl.arange(0, BLOCK)
        logit = tl.load(logits + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
        wrong += ((logit != logit) | (logit == float("inf"))).to(tl.int32)
        places = tl.where(logit > tops, at, places)
        tops = tl.where(logit > tops, logit, tops)
        start += BLOCK
    top = tl.max(tops, 0)
    best = tl.min(tl.where(tops == top, places, vocabulary), 0)
    possible = ((tl.sum(wrong, 0) == 0) & (top > float("-inf"))).to(tl.int32)
    return tops, best, possible


@triton.jit
def _weights(
    logits: tl.tensor, at: tl.tensor, vocabulary: tl.tensor, top: tl.tensor, scale: tl.tensor
) -> tl.tensor:
    """exp((logit - top) / scale): 1 for the likeliest, 0 past the end."""
    logit = tl.load(logits + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32)
    return tl.exp((logit - top) / scale)


@triton.jit
def _total(
    logits: tl.tensor,
    vocabulary: tl.tensor,
    top: tl.tensor,
    scale: tl.tensor,
    least: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The sum of the weights of `least` or more, fp64."""
    total = tl.zeros((), tl.float64)
    start = 0
    while start < vocabulary:
        weight = _weights(logits, start + tl.arange(0, BLOCK), vocabulary, top, scale)
        total += tl.sum(tl.where(weight >= least, weight, 0.0).to(tl.float64), 0)
        start += BLOCK
    return total


@triton.jit
def _in_order(
    logits: tl.tensor,
    vocabulary: tl.tensor,
    top: tl.tensor,
    scale: tl.tensor,
    min_p: tl.tensor,
    noise: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Where the running sum over the ids passes noise times the whole."""
    target = noise * _total(logits, vocabulary, top, scale, min_p, BLOCK)
    token = tl.full((), -1, tl.int64)
    last = tl.zeros((), tl.int64)
    before = tl.zeros((), tl.float64)
    start = 0
    while start < vocabulary:
        at = start + tl.arange(0, BLOCK)
        weight = _weights(logits, at, vocabulary, top, scale)
        kept = tl.where(weight >= min_p, weight, 0.0).to(tl.float64)
        running = before + tl.cumsum(kept, 0)
        passed = tl.min(tl.where((running > target) & (kept > 0), at, vocabulary), 0)
        token = tl.where((token < 0) & (passed < vocabulary), passed.to(tl.int64), token)
        last = tl.maximum(last, tl.max(tl.where(kept > 0, at, 0), 0).to(tl.int64))
        before += tl.sum(kept, 0)
        start += BLOCK
    # A running sum in another order may end below the whole by a rounding.
    return tl.where(token < 0, last, token)


@triton.jit
def _ranked(
    logits: tl.tensor,
    vocabulary: tl.tensor,
    tops: tl.tensor,
    top: tl.tensor,
    scale: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    min_p: tl.tensor,
    noise: tl.tensor,
    weights: tl.tensor,
    ids: tl.tensor,
    BLOCK: tl.constexpr,
    CANDIDATES: tl.constexpr,
) -> tl.tensor:
    """As _in_order, but heaviest first, over what top_k, top_p and min_p leave.

    All three cut the order at one place, so what they leave together begins at the largest of the
    three keys. Candidates, a small part of the row, are written out once and searched there.
    """
    total = _total(logits, vocabulary, top, scale, 0.0, BLOCK)
    limits = (top_k > 0) & (top_k < vocabulary)
    # Tokens below it weigh less than 1 - top_p together, so top_p cuts them; 2 is for rounding.
    floor = ((1.0 - top_p) * total / (2.0 * vocabulary)).to(tl.float32)
    if limits:
        # Each lane's largest is a logit of the row, so the k-th of those is not above its k-th; of
        # fewer than k it is 0.
        floor = least_of_best(tl.exp((tops - top) / scale), top_k)
    count = _candidates(logits, vocabulary, top, scale, floor, weights, ids, BLOCK)
    tl.debug_barrier()  # what other threads wrote is read from here on
    cut = weight_key(min_p)
    if limits:
        k_cut = search(weights, ids, count, top_k.to(tl.float64), True, False, CANDIDATES)
        cut = tl.maximum(cut, k_cut)
        total = mass_from(weights, ids, count, k_cut, CANDIDATES)
    if top_p < 1:
        p_cut = search(weights, ids, count, top_p.to(tl.float64) * total, False, False, CANDIDATES)
        cut = tl.maximum(cut, p_cut)
    whole = mass_from(weights, ids, count, cut, CANDIDATES)
    return key_id(search(weights, ids, count, noise * whole, False, True, CANDIDATES))


@triton.jit
def _candidates(
    logits: tl.tensor,
    vocabulary: tl.tensor,
    top: tl.tensor,
    scale: tl.tensor,
    floor: tl.tensor,
    weights: tl.tensor,
    ids: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Write the weights from floor on and their ids, by id; how many there are."""
    count = 0
    start = 0
    while start < vocabulary:
        at = start + tl.arange(0, BLOCK)
        weight = _weights(logits, at, vocabulary, top, scale)
        kept = (weight >= floor) & (weight > 0)
        place = count + tl.cumsum(kept.to(tl.int32), 0) - 1
        tl.store(weights + place, weight, mask=kept)
        tl.store(ids + place, at, mask=kept)
        count += tl.sum(kept.to(tl.int32), 0)
        start += BLOCK
    return count


def sample(logits: Tensor, rows: SamplingRows) -> Tensor:
    """A token for each row of logits [rows, vocabulary], on their device: int64 [rows].

    -inf excludes a token; greedy rows take the lowest id of equal logits. -1: a row with NaN or
    inf, or of nothing but -inf. Raises ValueError for a vocabulary of more than 2**20.
    """
    count, vocabulary = logits.shape
    if vocabulary > LAST_ID + 1:
        raise ValueError(f"a vocabulary of {vocabulary}; at most {LAST_ID + 1}")
    assert logits.stride(1) == 1, logits.stride()
    assert rows.counts.shape == rows.numbers.shape == (3, count)
    tokens = torch.empty(count, dtype=torch.int64, device=logits.device)
    weights = torch.empty((count, vocabulary), dtype=torch.float32, device=logits.device)
    ids = torch.empty((count, vocabulary), dtype=torch.int32, device=logits.device)
    if count:
        sample_kernel[(count,)](
            *(logits, logits.stride(0), vocabulary, rows.counts, rows.numbers, count),
            *(weights, ids, tokens),
            BLOCK=_BLOCK,
            CANDIDATES=_CANDIDATES,
            num_warps=8,
        )
    return tokens
