"""What may follow a request's tokens, computed as extra rows of the same step, and what of it held.

Pure functions of a request and its sources of drafts; nothing here changes its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from radixchat.engine.batch import ScheduledRequest
from radixchat.engine.sampler import Sampled, SampleResult


def with_draft(item: ScheduledRequest, limit: int) -> ScheduledRequest:
    """With at most `limit` tokens: those that its grammar forces, else what its lookup guesses."""
    request = item.request
    if limit <= 0:
        return item
    if request.grammar is not None and (forced := request.grammar.forced(limit)):
        return replace(item, draft=tuple(forced))
    if request.lookup is None:
        return item
    # Nothing follows a stop token.
    proposed = request.lookup.propose(request.tokens, limit)
    draft = list(takewhile(lambda token: token not in request.stop_ids, proposed))
    if request.grammar is not None:
        del draft[request.grammar.valid_prefix(draft) :]
    return replace(item, draft=tuple(draft), guessed=True)


def verified(draft: Sequence[int], sampled: Sequence[SampleResult]) -> int:
    """How many tokens of the draft are what was sampled in their places."""
    pairs = zip(draft, sampled, strict=False)
    return sum(
        1 for _ in takewhile(lambda p: isinstance(p[1], Sampled) and p[0] == p[1].token, pairs)
    )
