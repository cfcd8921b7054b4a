"""How the next token is chosen: `SamplingParams`, checked when it is made.

Knows numbers and token ids; no request, no text and no tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from radixchat.engine.errors import InvalidSamplingParams


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen, and after how many to stop.

    temperature: 0 is greedy. top_k: 0 is off. top_p in (0, 1]; 1 is off. min_p in [0, 1);
    0 is off. typical_p in (0, 1]; 1 is off. repetition_penalty: divides the positive logits of
    every token of prompt and answer; 1 is off. presence_penalty, frequency_penalty: subtracted
    once, and per occurrence in the answer. dry_multiplier: 0 is off; a token that would prolong a
    repetition of n >= dry_allowed_length tokens loses dry_multiplier * dry_base ** (n -
    dry_allowed_length); dry_breakers: tokens over which no repetition reaches. logit_bias: added to
    the logits of these ids. bad_words: sequences of ids that are never completed.
    min_tokens: no stop token is sampled before. seed: with the token's position it gives the noise,
    so the same seed repeats an answer. max_tokens: None goes on until a stop token or the end of
    the context. logprobs: of the chosen token and of so many most likely ones; None is off.
    prompt_logprobs: the same of the prompt's tokens.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_breakers: frozenset[int] = frozenset()
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    seed: int = 0
    max_tokens: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        checks = (
            ("temperature", self.temperature, "0 to 10", 0 <= self.temperature <= 10),
            ("top_k", self.top_k, "0 (off) or more", self.top_k >= 0),
            ("top_p", self.top_p, "more than 0, at most 1", 0 < self.top_p <= 1),
            ("min_p", self.min_p, "0 (off) to less than 1", 0 <= self.min_p < 1),
            ("seed", self.seed, "0 to 2**63 - 1", 0 <= self.seed < 2**63),
            (
                "max_tokens",
                self.max_tokens,
                "1 or more",
                self.max_tokens is None or self.max_tokens >= 1,
            ),
        )
        for name, value, allowed, ok in checks:
            if not ok or (isinstance(value, float) and math.isnan(value)):
                raise InvalidSamplingParams(f"{name} is {value!r}; allowed: {allowed}")
