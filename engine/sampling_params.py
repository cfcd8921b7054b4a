"""How the next token is chosen: `SamplingParams`, checked when it is made.

Knows numbers and token ids; no request, no text and no tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from radixchat.engine.errors import InvalidSamplingParams

Check = tuple[str, object, str, bool]  # the field, its value, what would do, whether it does

MAX_LOGPROBS = 20
_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
)
_COUNTS = ("top_k", "dry_allowed_length", "min_tokens", "seed")
_OPTIONAL_COUNTS = ("max_tokens", "logprobs", "prompt_logprobs")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen, and after how many to stop.

    The steps, in order: bans and the grammar; logit_bias; the penalties of repetition, presence
    and frequency; DRY; temperature; typical_p, top_k, top_p and min_p, each on what the one before
    left, as if that were the whole distribution.

    temperature: 0 is greedy. top_k: 0 is off. top_p in (0, 1]; 1 is off. min_p in [0, 1);
    0 is off. typical_p in (0, 1]; 1 is off. repetition_penalty: divides the positive logits of
    every token of prompt and answer, and multiplies the negative ones; 1 is off. presence_penalty,
    frequency_penalty: subtracted once, and per occurrence in the answer. dry_multiplier: 0 is off;
    a token that would prolong a repetition of n >= dry_allowed_length tokens loses
    dry_multiplier * dry_base ** (n - dry_allowed_length); n counts up to 256. dry_breakers: tokens
    over which no repetition reaches, and that never lose by it; so are the stop tokens.
    logit_bias: added to the logits of these ids. bad_words: sequences of ids that are never
    completed, wherever they begin. min_tokens: no stop token is sampled before; a grammar that
    admits nothing else wins. seed: with the token's position it gives the noise, so the same seed
    repeats an answer. max_tokens: None goes on until a stop token or the end of the context.
    logprobs: of the chosen token and of so many most likely ones; None is off. prompt_logprobs: the
    same of the prompt's tokens.
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
        for checks in (self._kinds, self._ranges, self._lengths, self._ids):
            for name, value, allowed, ok in checks():
                if not ok:
                    raise InvalidSamplingParams(f"{name} is {value!r}; allowed: {allowed}")

    @property
    def edits_logits(self) -> bool:
        """Whether logits change before the temperature; min_tokens and grammars apart."""
        return bool(
            self.logit_bias
            or self.bad_words
            or self.repetition_penalty != 1
            or self.presence_penalty
            or self.frequency_penalty
            or self.dry_multiplier
        )

    def validate_vocabulary(self, size: int) -> None:
        """Raise InvalidSamplingParams where a token is named that the model does not have."""
        for name, tokens in self._named_tokens():
            for token in tokens:
                if token >= size:
                    raise InvalidSamplingParams(
                        f"{name} names token {token}; allowed: 0 to {size - 1}"
                    )

    def _named_tokens(self) -> tuple[tuple[str, Iterable[int]], ...]:
        return (
            ("logit_bias", [token for token, _ in self.logit_bias]),
            ("bad_words", itertools.chain.from_iterable(self.bad_words)),
            ("dry_breakers", self.dry_breakers),
        )

    def _kinds(self) -> Iterator[Check]:
        for name in _NUMBERS:
            value = getattr(self, name)
            yield name, value, "a number", type(value) in (int, float)
        for name in (*_COUNTS, *_OPTIONAL_COUNTS):
            value = getattr(self, name)
            absent = value is None and name in _OPTIONAL_COUNTS
            yield name, value, "a whole number", absent or type(value) is int
        for token, bias in self.logit_bias:
            yield f"logit_bias of token {token}", bias, "a number", type(bias) in (int, float)
        for name, tokens in self._named_tokens():
            for token in tokens:
                yield f"a token of {name}", token, "a whole number", type(token) is int

    def _ranges(self) -> Iterator[Check]:
        """The numbers; a NaN fails every comparison, so it is never allowed."""
        yield "temperature", self.temperature, "0 to 10", 0 <= self.temperature <= 10
        yield "top_p", self.top_p, "more than 0, at most 1", 0 < self.top_p <= 1
        yield "min_p", self.min_p, "0 (off) to less than 1", 0 <= self.min_p < 1
        # Less is 0 in fp32, or makes a logit infinite.
        yield "typical_p", self.typical_p, "0.000001 to 1", 1e-6 <= self.typical_p <= 1
        repetition = self.repetition_penalty
        yield "repetition_penalty", repetition, "0.01 to 10", 0.01 <= repetition <= 10
        for name, penalty in (
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ):
            yield name, penalty, "-2 to 2", -2 <= penalty <= 2
        multiplier = self.dry_multiplier
        yield "dry_multiplier", multiplier, "0 (off) to 100", 0 <= multiplier <= 100
        yield "dry_base", self.dry_base, "1 to 10", 1 <= self.dry_base <= 10
        for token, bias in self.logit_bias:
            yield f"logit_bias of token {token}", bias, "-100 to 100", -100 <= bias <= 100

    def _lengths(self) -> Iterator[Check]:
        yield "top_k", self.top_k, "0 (off) or more", self.top_k >= 0
        allowed_length = self.dry_allowed_length
        fits = 1 <= allowed_length < 2**31
        yield "dry_allowed_length", allowed_length, "1 to 2**31 - 1", fits
        yield "seed", self.seed, "0 to 2**63 - 1", 0 <= self.seed < 2**63
        least, most = self.min_tokens, self.max_tokens
        yield "max_tokens", most, "1 or more", most is None or most >= 1
        yield "min_tokens", least, "0 or more", least >= 0
        yield "min_tokens", least, f"at most max_tokens, {most}", most is None or least <= most
        for name, top in (("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)):
            yield name, top, f"0 to {MAX_LOGPROBS}", top is None or 0 <= top <= MAX_LOGPROBS

    def _ids(self) -> Iterator[Check]:
        biased = [token for token, _ in self.logit_bias]
        yield "logit_bias", biased, "tokens of 0 or more", min(biased, default=0) >= 0
        yield "logit_bias", biased, "each token once", len(set(biased)) == len(biased)
        for word in self.bad_words:
            yield "a bad word", word, "one token or more, of 0 or more", min(word, default=-1) >= 0
        lowest = min(self.dry_breakers, default=0)
        yield "a token of dry_breakers", lowest, "0 or more", lowest >= 0
