"""Sampling written slowly and obviously, in float64, one row and one token at a time.

The specification of `engine/sampler.py`'s steps; knows nothing of how they are batched.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from radixchat.engine.sampling_params import SamplingParams

Floats = NDArray[np.float64]


def mask_of(allowed: Collection[int], vocabulary: int) -> NDArray[np.uint32]:
    """The bits of a grammar's mask."""
    words = np.zeros(-(-vocabulary // 32), dtype=np.uint32)
    for token in allowed:
        words[token // 32] |= np.uint32(1 << (token % 32))
    return words


def edited(
    logits: Floats,
    params: SamplingParams,
    tokens: Sequence[int],
    num_prompt: int,
    stop_ids: frozenset[int] = frozenset(),
    allowed: Collection[int] | None = None,
) -> Floats:
    """The logits that the temperature is applied to; -inf for what cannot come."""
    vocabulary = len(logits)
    admitted = set(range(vocabulary)) if allowed is None else set(allowed)
    ends = allowed is not None and admitted <= stop_ids
    if len(tokens) - num_prompt < params.min_tokens and not ends:
        admitted -= stop_ids
    for *beginning, last in params.bad_words:
        if list(tokens[len(tokens) - len(beginning) :]) == beginning:
            admitted.discard(last)
    result = [logits[i] if i in admitted else -math.inf for i in range(vocabulary)]
    for token, bias in params.logit_bias:
        result[token] += bias
    answer = list(tokens[num_prompt:])
    dry = dry_losses(tokens, params, params.dry_breakers | stop_ids)
    for token in range(vocabulary):
        if token in tokens:
            factor = 1 / params.repetition_penalty if result[token] > 0 else None
            result[token] *= factor or params.repetition_penalty
        if token in answer:
            result[token] -= params.presence_penalty
            result[token] -= params.frequency_penalty * answer.count(token)
        result[token] -= dry.get(token, 0)
    return np.array(result)


def dry_losses(
    tokens: Sequence[int], params: SamplingParams, breakers: Collection[int]
) -> dict[int, float]:
    """What DRY takes from each token that would prolong a repetition of the text's end."""
    losses: dict[int, float] = {}
    for end in range(len(tokens) - 1):
        length = 0
        while (
            length <= end
            and tokens[end - length] == tokens[-1 - length]
            and tokens[end - length] not in breakers
        ):
            length += 1
        following = tokens[end + 1]
        if length >= params.dry_allowed_length and following not in breakers:
            over = length - params.dry_allowed_length
            loss = params.dry_multiplier * params.dry_base**over
            losses[following] = max(losses.get(following, 0), loss)
    return losses


def probabilities(logits: Floats, params: SamplingParams) -> Floats:
    """The distribution that is drawn from; temperature > 0."""
    weights = np.exp((logits - logits.max()) / params.temperature)
    weights /= weights.sum()
    ids = np.arange(len(weights))
    if params.typical_p < 1:
        surprise = np.array([-math.log(w) if w > 0 else math.inf for w in weights])
        entropy = sum(w * s for w, s in zip(weights, surprise, strict=True) if w > 0)
        weights = _until(weights, np.lexsort((ids, abs(surprise - entropy))), params.typical_p)
    order = np.lexsort((ids, -weights))
    if params.top_k:
        weights[order[params.top_k :]] = 0
        weights /= weights.sum()
    if params.top_p < 1:
        weights = _until(weights, order, params.top_p)
    weights[weights < params.min_p * weights.max()] = 0
    normalised: Floats = weights / weights.sum()
    return normalised


def _until(weights: Floats, order: NDArray[np.int64], mass: float) -> Floats:
    """The first in that order that together have the mass."""
    kept, total = np.zeros_like(weights), 0.0
    for token in order:
        if total < mass:
            kept[token] = weights[token]
        total += weights[token]
    normalised: Floats = kept / kept.sum()
    return normalised
