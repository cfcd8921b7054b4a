"""`MissReport`: why the cache had less of a prompt than was to be expected, for a client.

A frozen value, standard library only; `miss.py` finds it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MissReport:
    """Why the cache had less of a prompt than an earlier response of the conversation promises.

    reason: "cold", there is no such response; "not_restored", the tokens are in host memory, on
    disk or in another store, and computing them was quicker, or looked so; "partial_page", they are
    the rest of a page, and only whole ones are kept below the pool; "evicted", they were in the
    cache and had to make room; "changed", a message before the one to be answered has another text;
    "template", the messages are the same but were rendered or encoded otherwise; "namespace", the
    earlier response was another tenant's; "model", another model, tokenizer or template made it;
    "expired", it was computed before this cache existed; "truncated", one of the two had turns that
    were left out of the other; else "unknown".

    index: the first token that was missed; of "changed", "template" and "truncated" the first that
    differs.
    message: the id of the prompt's message in whose share it lies, None where that is not known.
    expected_text, got_text: the earlier response's text and the prompt's around the first token
    that differs. comparison_reusable_tokens: leading tokens that both have; None where the earlier
    ones are not known. cache_missed_tokens: of "not_restored", "partial_page", "evicted", "expired"
    and "unknown", how many of these had to be computed again. Where the prompts differ ("changed",
    "template", "truncated", "namespace", "model"): tokens computed before the message to be
    answered, at most as many as the earlier response had. 0 of "cold".
    """

    reason: str
    index: int
    message: str | None
    expected_text: str | None
    got_text: str | None
    cache_missed_tokens: int
    comparison_reusable_tokens: int | None
    evicted_seconds_ago: float | None = None

    def diagnostics(self) -> dict[str, Any]:
        """The `prompt_cache_diagnostics` object of the Responses API, with our reasons."""
        cold = self.reason == "cold"
        return {
            "type": "comparison_response_not_found" if cold else "cache_miss",
            "reason": self.reason,
            "cache_missed_tokens": self.cache_missed_tokens,
            "comparison_reusable_tokens": self.comparison_reusable_tokens,
        }

    def details(self) -> dict[str, Any] | None:
        """What the Responses API has no name for: the `x_cache` object; None of "cold"."""
        if self.reason == "cold":
            return None  # nothing was missed
        return {
            "index": self.index,
            "message": self.message,
            "expected_text": self.expected_text,
            "got_text": self.got_text,
            "evicted_seconds_ago": self.evicted_seconds_ago,
        }
