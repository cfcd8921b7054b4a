"""What one row of logits needs to become a token: `SampleRow`; and the rows of a request.

Knows requests and their histories; no tensor. A request that asks for nothing but temperature and
cuts costs two values a row here, however long it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.engine.logit_edits import LogitEdits
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.token_history import TokenHistory


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Parameters, the position of the new token, and the edits of its logits, None for none."""

    params: SamplingParams
    position: int
    edits: LogitEdits | None = None


def sample_rows(
    request: Request, draft: Sequence[int], masks: Sequence[NDArray[np.uint32]]
) -> list[SampleRow]:
    """The row after the request's last token, and one after each token of the draft.

    Row i is the one that a step would have after draft[:i] had been appended. masks: [] or, of a
    grammar, one a row: token i is allowed iff bit i % 32 of word i // 32 is set.
    """
    assert not masks or len(masks) == 1 + len(draft)
    params, start = request.sampling, len(request.tokens)
    unripe = params.min_tokens - request.num_output  # so many rows have no stop token
    if not (masks or params.edits_logits or unripe > 0):
        return [SampleRow(params, start + i) for i in range(1 + len(draft))]
    if request.history is None:
        request.history = TokenHistory(params, request.stop_ids, request.tokens, request.num_prompt)
    history = request.history
    history.follow(request.tokens)
    rows = []
    for i in range(1 + len(draft)):
        if i:
            history = history.copy() if i == 1 else history
            history.push(draft[i - 1])
        mask = masks[i] if masks else None
        stops = request.stop_ids if i < unripe and not _ends(mask, request.stop_ids) else ()
        rows.append(SampleRow(params, start + i, history.edits(mask, stops)))
    return rows


def _ends(mask: NDArray[np.uint32] | None, stop_ids: Collection[int]) -> bool:
    """Whether a grammar admits nothing but the end."""
    if mask is None:
        return False
    ends = sum(int(mask[i // 32]) >> (i % 32) & 1 for i in stop_ids if i // 32 < len(mask))
    return int(np.bitwise_count(mask).sum()) == ends
