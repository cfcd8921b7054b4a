"""What may follow a request's tokens, computed as extra rows of the same step, and what of it held.

Pure functions of a request and its sources of drafts; nothing here changes its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from radixchat.engine.request import Request
from radixchat.engine.sampler import Sampled, SampleResult


def draft_of(request: Request, limit: int) -> list[int]:
    """At most `limit` tokens: those that its grammar forces, else what its lookup guesses."""
    if limit <= 0:
        return []
    if request.grammar is not None and (forced := request.grammar.forced(limit)):
        return forced
    if request.lookup is None:
        return []
    # Nothing follows a stop token.
    proposed = request.lookup.propose(request.tokens, limit)
    draft = list(takewhile(lambda token: token not in request.stop_ids, proposed))
    if request.grammar is not None:
        del draft[request.grammar.valid_prefix(draft) :]
    return draft


def verified(draft: Sequence[int], sampled: Sequence[SampleResult]) -> int:
    """How many tokens of the draft are what was sampled in their places."""
    pairs = zip(draft, sampled, strict=False)
    return sum(
        1 for _ in takewhile(lambda p: isinstance(p[1], Sampled) and p[0] == p[1].token, pairs)
    )
