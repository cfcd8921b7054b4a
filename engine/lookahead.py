"""The decode step that a device begins before the host has decided it: which rows, and which held.

While the host reads the tokens of one step, tells of them and decides the next, the device would
be idle. So the runner assumes that everybody goes on by one token and asks for that step at once;
its tokens are still on the device. What the scheduler then decides is compared with what was
assumed, row by row: a row that holds has its result, any other is computed as if there had been no
assumption. Rows do not depend on each other, so nothing has to be computed again for others.

A row that did not hold has written one K and V at the position behind its request's last, where
nothing is read before it is written, and in the order of the device's queue: if the page has been
given to somebody else, his K and V come later. Knows requests; no tensor and no page's contents.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.engine.batch import ScheduledRequest
from radixchat.engine.config import EnginePlan
from radixchat.engine.request import Request


@dataclass(frozen=True, slots=True)
class AssumedRow:
    """A row of a step that nobody has scheduled yet.

    length: its positions; the token of the last one was not known. slot: where its K and V are.
    place: where, among the tokens that the device sampled, its result is.
    """

    request: Request
    length: int
    slot: int
    place: int


def is_plain(item: ScheduledRequest, *, draws: bool) -> bool:
    """Whether a step gives one token that the device samples, whatever else the step has.

    That is one which needs nothing but the logits, or, where the device draws, the parameters that
    it draws with.
    """
    request, params = item.request, item.request.sampling
    return (
        item.samples
        and not item.draft
        and not item.prompt_positions
        and request.grammar is None
        and (params.temperature == 0 or (draws and params.typical_p == 1))
        and params.logprobs is None
        and not params.edits_logits
        and request.num_output >= params.min_tokens
    )


def goes_on(item: ScheduledRequest, plan: EnginePlan) -> bool:
    """Whether to assume that the item, which is plain, is followed by another one.

    It is not where the token being sampled is the last one whatever it is.
    """
    request = item.request
    length = len(request.tokens) + 1
    most = request.sampling.max_tokens
    return length < plan.max_tokens and (most is None or request.num_output + 1 < most)


def holds(row: AssumedRow, item: ScheduledRequest, token: int, *, draws: bool) -> bool:
    """Whether the item is what was assumed; token: what was sampled for the row's last position."""
    request = item.request
    return (
        request is row.request
        and request.allocation is not None
        and len(request.tokens) == row.length
        and request.num_computed == row.length - 1
        and request.tokens[-1] == token
        and is_plain(item, draws=draws)
    )
