"""Sampling parameters: what is refused, and how that is said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from radixchat.engine.errors import InvalidSamplingParams
from radixchat.engine.sampling_params import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", 1.0),
        ("typical_p", 0.0),
        ("typical_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 11.0),
        ("repetition_penalty", math.nan),
        ("presence_penalty", 2.5),
        ("presence_penalty", math.nan),
        ("frequency_penalty", -2.5),
        ("dry_multiplier", -1.0),
        ("dry_multiplier", math.inf),
        ("dry_base", 0.5),
        ("dry_base", math.nan),
        ("dry_allowed_length", 0),
        ("dry_breakers", frozenset({3, -1})),
        ("logit_bias", ((3, 101.0),)),
        ("logit_bias", ((3, math.nan),)),
        ("logit_bias", ((3, -math.inf),)),
        ("logit_bias", ((-3, 1.0),)),
        ("logit_bias", ((3, 1.0), (3, 2.0))),
        ("bad_words", ((),)),
        ("bad_words", ((3, -1),)),
        ("min_tokens", -1),
        ("seed", -1),
        ("seed", 2**63),
        ("max_tokens", 0),
        ("logprobs", -1),
        ("logprobs", 21),
        ("prompt_logprobs", 21),
        ("temperature", "0.5"),
        ("temperature", True),
        ("typical_p", 1e-46),
        ("repetition_penalty", 1e-40),
        ("dry_allowed_length", 2**63),
        ("dry_allowed_length", 2.0),
        ("top_k", 2.0),
        ("top_k", True),
        ("top_k", None),
        ("max_tokens", 2.5),
        ("seed", 1.5),
        ("logprobs", 2.0),
        ("logit_bias", ((3.5, 1.0),)),
        ("logit_bias", ((3, "1"),)),
        ("bad_words", ((3.5,),)),
        ("bad_words", ((3, "a"),)),
        ("dry_breakers", frozenset({3.5})),
    ],
)
def test_impossible_parameters_are_named(field: str, value: Any) -> None:
    """The error says which parameter, its value, and what would do."""
    name = field.removesuffix("s").replace("_", "[ _]")
    with pytest.raises(InvalidSamplingParams, match=f"{name}.* is .*allowed: "):
        SamplingParams(**{field: value})


def test_an_answer_cannot_be_shorter_than_it_must_be() -> None:
    """min_tokens beyond max_tokens is refused with both."""
    with pytest.raises(InvalidSamplingParams, match=r"min_tokens is 9; allowed: at most .* 8"):
        SamplingParams(min_tokens=9, max_tokens=8)
    SamplingParams(min_tokens=8, max_tokens=8)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(logit_bias=((50, 1.0),)),
        SamplingParams(bad_words=((1,), (2, 50))),
        SamplingParams(dry_breakers=frozenset({50})),
    ],
)
def test_tokens_that_the_model_lacks_are_refused(params: SamplingParams) -> None:
    """The error names the field, the token and the range; a model that has the token is content."""
    with pytest.raises(InvalidSamplingParams, match="names token 50; allowed: 0 to 49"):
        params.validate_vocabulary(50)
    params.validate_vocabulary(51)


@pytest.mark.parametrize(
    ("params", "edits"),
    [
        (SamplingParams(), False),
        (SamplingParams(temperature=0, top_k=3, min_tokens=4, logprobs=2), False),
        (SamplingParams(dry_base=2.0, dry_allowed_length=3), False),
        (SamplingParams(logit_bias=((1, 1.0),)), True),
        (SamplingParams(bad_words=((1,),)), True),
        (SamplingParams(repetition_penalty=0.9), True),
        (SamplingParams(presence_penalty=-1), True),
        (SamplingParams(frequency_penalty=1), True),
        (SamplingParams(dry_multiplier=1), True),
    ],
)
def test_parameters_say_whether_they_edit_logits(params: SamplingParams, edits: bool) -> None:
    """Only what changes logits before the temperature costs a request its history."""
    assert params.edits_logits is edits
