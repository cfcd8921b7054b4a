"""What a client may ask of one response: `ResponseOptions`, checked when they are made.

Owns the limits of options that are texts or belong to the service. Standard library only; knows no
model, whose vocabulary decides the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.sampling_params import MAX_LOGPROBS
from radixchat.server.message import check_text

TRUNCATIONS = ("disabled", "auto")
MAX_STOPS = 16
MAX_BAD_WORDS = 256
MAX_CHARACTERS = 256  # of a stop text, and of a bad word
MAX_LOGIT_BIASES = 1024
MAX_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What an answer has to look like.

    kind: "json_object" (any JSON object; `value` is ""), "json_schema" (a JSON schema), "regex",
    "choice" (a JSON list of texts, of which it is one) or "lark" (a Lark grammar).
    """

    kind: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What a client may ask of one response; unless said here, the meanings are SamplingParams'.

    stop: texts that end the answer and are not part of it. bad_words: words that it does not write,
    at the start of a line or after a space.
    ignore_eos: go on after the model's stop tokens, but for the end of a response_format.
    top_logprobs: SamplingParams.logprobs.
    response_format: what the answer has to look like. truncation: "disabled" refuses a
    conversation that does not fit the context; "auto" leaves out whole oldest turns. speculate:
    whether tokens may be guessed from the conversation and checked, which changes no answer.
    timeout_s: seconds after which the answer ends as it is. priority: higher goes first.

    Raises InvalidRequest, with the value and what would do, for what can be told of the options
    alone. The ranges of the other numbers, which have the same names there, are SamplingParams';
    what a token is, the model's.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    min_output_tokens: int = 0
    ignore_eos: bool = False
    seed: int | None = None
    max_output_tokens: int | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    truncation: str = "disabled"
    speculate: bool = True
    timeout_s: float | None = None
    priority: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ResponseOptions:
        """The inverse of `dataclasses.asdict`, through JSON too; raises InvalidRequest."""
        names = {field.name for field in fields(cls)}
        if unknown := values.keys() - names:
            raise InvalidRequest(f"{sorted(unknown)[0]!r} is no option of this version")
        known = dict(values)
        if known.get("response_format") is not None:
            known["response_format"] = ResponseFormat(**known["response_format"])
        for name in ("stop", "bad_words"):
            known[name] = tuple(known.get(name, ()))
        known["logit_bias"] = tuple((id_, bias) for id_, bias in known.get("logit_bias", ()))
        return cls(**known)

    def __post_init__(self) -> None:
        timeout, priority, truncation = self.timeout_s, self.priority, self.truncation
        least, most, top = self.min_output_tokens, self.max_output_tokens, self.top_logprobs
        lasts = timeout is None or (timeout > 0 and math.isfinite(timeout))
        in_range = -MAX_PRIORITY <= priority <= MAX_PRIORITY
        has_room = most is None or least <= most
        counted = top is None or 0 <= top <= MAX_LOGPROBS
        for name, value, allowed, ok in (
            ("truncation", truncation, " or ".join(TRUNCATIONS), truncation in TRUNCATIONS),
            ("timeout_s", timeout, "more than 0 seconds", lasts),
            ("priority", priority, f"-{MAX_PRIORITY} to {MAX_PRIORITY}", in_range),
            ("max_output_tokens", most, "1 or more", most is None or most >= 1),
            ("min_output_tokens", least, "0 or more", least >= 0),
            ("min_output_tokens", least, f"at most max_output_tokens, {most}", has_room),
            ("top_logprobs", top, f"0 to {MAX_LOGPROBS}", counted),
        ):
            if not ok:
                raise InvalidRequest(f"{name} is {value!r}; allowed: {allowed}")
        _check_number("stop", "texts", self.stop, MAX_STOPS)
        _check_number("bad_words", "texts", self.bad_words, MAX_BAD_WORDS)
        _check_number("logit_bias", "tokens", self.logit_bias, MAX_LOGIT_BIASES)
        for text in self.stop:
            _check_text("stop", text, text, "one character")
        for text in self.bad_words:
            _check_text("bad_words", text, text.strip(), "one visible character")


def _check_number(name: str, what: str, given: Sequence[object], most: int) -> None:
    if len(given) > most:
        raise InvalidRequest(f"{name} has {len(given)} {what}; allowed: at most {most}")


def _check_text(name: str, text: str, counts: str, least: str) -> None:
    """counts: what of the text must not be empty, which `least` says in words."""
    check_text(f"a text of {name}", text)
    if not counts:
        raise InvalidRequest(f"{name} has {text!r}; a text needs at least {least}")
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequest(
            f"{name} has a text of {len(text)} characters, {text[:20]!r}…; "
            f"allowed: at most {MAX_CHARACTERS}"
        )
