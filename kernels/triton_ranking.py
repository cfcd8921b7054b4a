# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
"""Triton: places in the order of a row's weights, heaviest first, without sorting them.

A weight and its id are one key, unique and in the order wanted: the weight's bits, which order as
the weights do where none is negative, above the id's complement, so that of equal weights the
lowest id comes first. A place in that order is found digit by digit, from what lies at or above
16 keys.
Sums are fp64 in one order: they grow with what they are of, to the bit, so a search always ends at
a key that exists. Knows no logit and no request.
"""

from __future__ import annotations

import triton
import triton.language as tl

LAST_ID = 2**20 - 1
_ID_BITS = tl.constexpr(20)
_LAST_ID = tl.constexpr(LAST_ID)
# 20 and 30: bits of weights up to 1 are at most 0x3F800000. In whole digits of 4 bits.
_KEY_BITS = tl.constexpr(52)


@triton.jit
def uniform(seed: tl.tensor, position: tl.tensor) -> tl.tensor:
    """Uniform in [0, 1), fp64, of seed and position: SplitMix64's finaliser, twice.

    The engine draws with the same numbers on the CPU, to the bit.
    """
    step = position.to(tl.uint64) * 0x9E3779B97F4A7C15
    bits = _mix(_mix(seed.to(tl.uint64)) + step)
    return (bits >> 11).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def _mix(z: tl.tensor) -> tl.tensor:
    z = z + 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def weight_key(weight: tl.tensor) -> tl.tensor:
    """The least key of a weight: of all that weigh as much, and of the last of them."""
    return weight.to(tl.int32, bitcast=True).to(tl.int64) << _ID_BITS


@triton.jit
def key_id(key: tl.tensor) -> tl.tensor:
    """The id of a key."""
    return (key & _LAST_ID) ^ _LAST_ID


@triton.jit
def masses_from(
    weights: tl.tensor,
    ids: tl.tensor,
    count: tl.tensor,
    keys: tl.tensor,
    COUNTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """For each of the keys the weight, or with COUNTS the number, of what lies there or above."""
    total = tl.zeros((keys.shape[0],), tl.float64)
    start = 0
    while start < count:
        at = start + tl.arange(0, BLOCK)
        weight = tl.load(weights + at, mask=at < count, other=0.0)
        key = weight_key(weight) + (tl.load(ids + at, mask=at < count, other=0) ^ _LAST_ID)
        measure = tl.where(weight > 0, 1.0, 0.0) if COUNTS else weight
        above = tl.where(key[:, None] >= keys[None, :], measure[:, None], 0.0)
        total += tl.sum(above.to(tl.float64), 0)
        start += BLOCK
    return total


@triton.jit
def mass_from(
    weights: tl.tensor,
    ids: tl.tensor,
    count: tl.tensor,
    key: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The weight of what lies at the key or above; the bits are those that a search sees."""
    keys = key + tl.zeros((16,), tl.int64)
    return tl.max(masses_from(weights, ids, count, keys, False, BLOCK), 0)


@triton.jit
def search(
    weights: tl.tensor,
    ids: tl.tensor,
    count: tl.tensor,
    target: tl.tensor,
    COUNTS: tl.constexpr,
    STRICT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The largest key from which on there is at least, STRICT: more than, the target; 0: none."""
    found = tl.zeros((), tl.int64)
    digits = tl.arange(0, 16).to(tl.int64)
    shift = _KEY_BITS - 4
    while shift >= 0:
        masses = masses_from(weights, ids, count, found + (digits << shift), COUNTS, BLOCK)
        reached = masses > target if STRICT else masses >= target
        digit = tl.maximum(tl.sum(reached.to(tl.int64), 0) - 1, 0)
        found += digit << shift
        shift -= 4
    return found


@triton.jit
def least_of_best(weights: tl.tensor, count: tl.tensor) -> tl.tensor:
    """Of a block of weights, the largest that `count` of them reach; 0 where fewer are not 0."""
    bits = weights.to(tl.int32, bitcast=True)
    found = tl.zeros((), tl.int32)
    bit = 29
    while bit >= 0:
        tried = found | (tl.full((), 1, tl.int32) << bit)
        found = tl.where(tl.sum((bits >= tried).to(tl.int32), 0) >= count, tried, found)
        bit -= 1
    return found.to(tl.float32, bitcast=True)
