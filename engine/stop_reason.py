"""Why an answer ends with the token that it has just got, if it does. Knows no queue, no page."""

from __future__ import annotations

from radixchat.engine.request import FinishReason, Request


def reason_to_stop(request: Request, max_tokens: int, *, stopped: bool) -> FinishReason | None:
    """None where it goes on. stopped: the token ends it; max_tokens: of prompt and answer."""
    said = request.text is not None and request.text.stopped_by is not None
    complete = request.grammar is not None and request.grammar.finished
    if stopped or said or complete:
        return FinishReason.STOP
    if request.num_output == request.sampling.max_tokens:
        return FinishReason.LENGTH
    if len(request.tokens) >= max_tokens:
        return FinishReason.CONTEXT
    return None
