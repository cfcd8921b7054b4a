"""Why a row of logits has no token, and what a request's owner is told of it."""

from __future__ import annotations

from enum import Enum, auto

from radixchat.engine.errors import InvalidRequest, ModelLoadError, RadixChatError
from radixchat.engine.request import Request


class NoToken(Enum):
    """What stands in place of a token that could not be sampled."""

    NOT_FINITE = auto()  # damaged weights, or an overflow
    EXCLUDED = auto()  # every token, by the grammar and the bans of the request


def error_of(request: Request, why: NoToken) -> RadixChatError:
    """The error that ends a request which has no next token."""
    if why is NoToken.NOT_FINITE:
        return ModelLoadError(
            "the model computed logits that are not finite: its file is damaged, or its numbers "
            "overflow; fetch it again, or take another"
        )
    if request.grammar is not None and (reason := request.grammar.dead_end()) is not None:
        return InvalidRequest(f"the answer cannot go on as its grammar wants it: {reason}")
    sampling = request.sampling
    parts = (
        ("its grammar", request.grammar is not None),
        ("bad_words", bool(sampling.bad_words)),
        ("min_tokens", sampling.min_tokens > 0),
    )
    asked = " and ".join(name for name, is_asked in parts if is_asked)
    return InvalidRequest(
        f"no token is left to go on with at position {len(request.tokens)}: {asked}"
    )
