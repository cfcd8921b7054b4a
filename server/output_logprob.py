"""What the model thought of one token of an answer, as a client reads it. A value; stdlib only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OutputLogprob:
    """One token of the vocabulary with its log-probability (natural) at one place of an answer.

    Of the model's own distribution, before temperature, penalties and grammar. token: its text;
    U+FFFD for bytes that are no character by themselves, and a control token's name. data: the
    exact bytes; None for a token that shows nothing. top: the most likely tokens of the place, best
    first, without a `top` of their own.
    """

    token: str
    data: bytes | None
    logprob: float
    top: tuple[OutputLogprob, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """One element of `logprobs` as the Responses API has them."""
        return {**self._entry(), "top_logprobs": [other._entry() for other in self.top]}

    def _entry(self) -> dict[str, Any]:
        data = None if self.data is None else list(self.data)
        return {"token": self.token, "bytes": data, "logprob": self.logprob}
