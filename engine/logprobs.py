"""What the model thought of a token: `TokenLogprob`, and how logits become some of them.

Knows logits and token ids; no request and no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probabilities (natural) at one position, of the model's own distribution.

    Before temperature, penalties, bans and grammar. token: the one that stands there, with its
    logprob and its rank, 1 for the most likely. top: the most likely ids with theirs, best first.
    Of equally likely tokens the lowest id is first.
    """

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


def prompt_logprobs(logits: Tensor, tokens: Sequence[int], top: int) -> list[TokenLogprob]:
    """Of given tokens, with `top` alternatives; logits fp32 [n, vocab] of the positions before."""
    return token_logprobs(logits, tokens, [top] * len(tokens))


def token_logprobs(
    logits: Tensor, tokens: Sequence[int], tops: Sequence[int]
) -> list[TokenLogprob]:
    """One per row of finite logits, fp32 [rows, vocab], with so many alternatives each.

    Ranks are by logits, which are exact; two of them may have one log-probability.
    """
    assert logits.shape[0] == len(tokens) == len(tops)
    if not tokens:
        return []
    # torch.logsumexp adds up a single row in another order than several; log_softmax does not.
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = torch.tensor(tokens, device=logits.device).unsqueeze(1)
    logit = logits.gather(1, chosen)
    ids = torch.arange(logits.shape[1], device=logits.device)
    ahead = (logits > logit) | ((logits == logit) & (ids < chosen))
    best = _most_likely(logits, logprobs, tops)
    values = logprobs.gather(1, chosen).squeeze(1).tolist()
    ranks = (ahead.sum(-1) + 1).tolist()
    return list(map(TokenLogprob, tokens, values, ranks, best))


def _most_likely(
    logits: Tensor, logprobs: Tensor, tops: Sequence[int]
) -> list[tuple[tuple[int, float], ...]]:
    """The best of each row; topk alone does not say which of equal logits it takes."""
    most = min(max(tops), logits.shape[1])
    if most == 0:
        return [()] * len(tops)
    least = logits.topk(most, dim=-1).values[:, -1:]
    rows, ids = (logits >= least).nonzero(as_tuple=True)
    values, found = logits[rows, ids].cpu().numpy(), logprobs[rows, ids].tolist()
    order = np.lexsort((ids.cpu().numpy(), -values, rows.cpu().numpy()))
    pairs = list(zip(ids.tolist(), found, strict=True))
    starts = np.searchsorted(rows.cpu().numpy(), np.arange(len(tops)))
    return [
        tuple(pairs[i] for i in order[start : start + min(top, most)])
        for start, top in zip(starts.tolist(), tops, strict=True)
    ]
