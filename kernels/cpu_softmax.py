"""The softmax of one row over one tile of keys, and how the states of tiles become one.

A state is what a tile or a stretch of tiles leaves of a row: values mixed with the weights [dim],
then the maximum of its scores and the sum of its weights. Every sum has one order, whoever calls.
Knows no page and no request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import (
    LANE_BYTES,
    WIDTH,
    add,
    div,
    everywhere,
    exp,
    fma,
    keep_first,
    largest,
    load,
    load_scalar,
    maximum,
    mul,
    store,
    store_scalar,
    sub,
    total,
)

_LOWEST = np.float32(-np.inf)


@jit
def weigh(scores: int, count: int, k_scales: int, v_scales: int, state: int, dim: int) -> None:
    """Turn a row's first `count` scores into weights; maximum and sum go to the state.

    scores: fp32, in vectors of 16 whose lanes behind the count hold anything. k_scales, v_scales:
    fp32 of each key, or 0; K's multiply the scores, V's the weights, but not their sum. A score
    that is not finite makes the sum NaN: what a broken model computes is not hidden.
    """
    lowest, nothing = everywhere(_LOWEST), everywhere(np.float32(0.0))
    top, check = lowest, nothing
    whole = count // WIDTH * WIDTH
    for i in range(0, whole, WIDTH):
        score = load(scores + 4 * i)
        if k_scales:
            score = mul(score, load(k_scales + 4 * i))
            store(scores + 4 * i, score)
        check = fma(score, nothing, check)
        top = maximum(score, top)
    if whole < count:
        score = load(scores + 4 * whole)
        if k_scales:
            score = mul(score, load(k_scales + 4 * whole))
        left = np.int64(count - whole)
        check = fma(keep_first(score, left, nothing), nothing, check)
        score = keep_first(score, left, lowest)
        store(scores + 4 * whole, score)
        top = maximum(score, top)
    highest = largest(top)
    top = everywhere(highest)
    added = nothing
    for i in range(0, count, WIDTH):
        weight = exp(sub(load(scores + 4 * i), top))
        added = add(added, weight)
        if v_scales:
            weight = mul(weight, load(v_scales + 4 * i))
        store(scores + 4 * i, weight)
    store_scalar(state + 4 * dim, highest)
    store_scalar(state + 4 * dim + 4, total(added) + total(check))


@jit
def fold_state(state: int, tile: int, dim: int) -> None:
    """Fold the state of the next tile into that of the tiles before it."""
    first, second = load_scalar(state + 4 * dim), load_scalar(tile + 4 * dim)
    highest = max(first, second)
    keep = exp(everywhere(first - highest))
    take = exp(everywhere(second - highest))
    for i in range(0, 4 * dim, LANE_BYTES):
        store(state + i, fma(load(tile + i), take, mul(load(state + i), keep)))
    store_scalar(state + 4 * dim, highest)
    sums = state + 4 * dim + 4
    folded = fma(_spread(tile + 4 * dim + 4), take, mul(_spread(sums), keep))
    store_scalar(sums, largest(folded))


@jit
def _spread(address: int) -> Any:
    return everywhere(load_scalar(address))


@jit
def finish(state: int, out: int, dim: int) -> None:
    """A row's attention: its mixed values over the sum of its weights."""
    sums = _spread(state + 4 * dim + 4)
    for i in range(0, 4 * dim, LANE_BYTES):
        store(out + i, div(load(state + i), sums))


@jit
def clear(state: int, dim: int) -> None:
    """Zeros as mixed values."""
    for i in range(0, 4 * dim, LANE_BYTES):
        store(state + i, everywhere(np.float32(0.0)))
