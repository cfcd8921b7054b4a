"""Sampling a step: greedy and drawn rows, rows with edits, rows that have no token."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.no_token import NoToken, error_of
from radixchat.engine.request import Request
from radixchat.engine.sample_row import SampleRow, sample_rows
from radixchat.engine.sampler import Sampled, SampleResult, sample
from radixchat.engine.sampling_params import SamplingParams
from radixchat.tests.engine.sampling_reference import mask_of

GREEDY = SamplingParams(temperature=0)
LOGITS = torch.tensor([[1.0, 3.0, 2.0, -1.0, 3.0]])


def token_of(result: SampleResult) -> int:
    assert isinstance(result, Sampled)
    return result.token


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    """Greedy is argmax; a tie goes to the lowest id."""
    assert sample(LOGITS, [SampleRow(GREEDY, 0)]) == [Sampled(1)]


def test_rows_of_every_kind_are_sampled_as_they_would_be_alone() -> None:
    """Greedy, drawn, penalised, biased, banned and masked rows in one step; none sees another."""
    prompt = [5, 6, 7, 5, 6]
    random = np.random.default_rng(4)
    params = [
        GREEDY,
        SamplingParams(temperature=0, repetition_penalty=1.5, logprobs=2),
        SamplingParams(top_p=0.9, seed=1),
        SamplingParams(temperature=0, dry_multiplier=3.0),
        SamplingParams(presence_penalty=1, frequency_penalty=1, seed=2, logprobs=0),
        SamplingParams(logit_bias=((9, 4.0),), min_p=0.1, seed=3),
        SamplingParams(temperature=0, bad_words=((7,), (6, 3)), min_tokens=2),
        SamplingParams(typical_p=0.8, seed=4),
    ]
    rows = []
    for i, each in enumerate(params * 3):
        request = Request(i, list(prompt), each, stop_ids=frozenset({2}))
        masks = [mask_of(range(i % 5, 60), 64)] if i > 12 else []
        rows += sample_rows(request, [], masks)
    logits = torch.from_numpy(random.normal(0, 2, (len(rows), 64))).float()
    before = logits.clone()
    together = sample(logits, rows)
    assert together == [sample(logits[i : i + 1], [row])[0] for i, row in enumerate(rows)]
    assert torch.equal(logits, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("params", [GREEDY, SamplingParams(seed=3), SamplingParams(top_k=2)])
def test_a_row_that_is_not_finite_has_no_token(bad: float, params: SamplingParams) -> None:
    """None for that row, and the others are as they would be without it."""
    logits = LOGITS.repeat(3, 1)
    logits[1, 3] = bad
    rows = [SampleRow(params, i) for i in range(3)]
    first, broken, last = sample(logits, rows)
    assert broken is NoToken.NOT_FINITE
    assert [first] == sample(LOGITS, rows[:1])
    assert [last] == sample(LOGITS, rows[2:])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_request_whose_every_token_is_excluded_is_told_so(temperature: float) -> None:
    """They are told apart, for that row alone."""
    params = SamplingParams(temperature=temperature, bad_words=((1,),), logprobs=1)
    request = Request(0, [4], params)
    rows = sample_rows(request, [], [mask_of({1}, 5)])
    fine = SampleRow(GREEDY, 9)
    excluded, sampled = sample(LOGITS.repeat(2, 1), [*rows, fine])
    assert excluded is NoToken.EXCLUDED
    error = error_of(request, excluded)
    assert isinstance(error, InvalidRequest)
    assert str(error) == "no token is left to go on with at position 1: bad_words"
    assert sampled == Sampled(1)


def test_a_bias_moves_a_token_and_never_brings_a_banned_one_back() -> None:
    """+100 decides; a ban stands."""
    rows = sample_rows(Request(0, [1], SamplingParams(0, logit_bias=((3, 100.0),))), [], [])
    assert token_of(sample(LOGITS, rows)[0]) == 3
    params = SamplingParams(0, logit_bias=((3, 100.0),), bad_words=((3,),))
    rows = sample_rows(Request(0, [1], params), [], [])
    assert token_of(sample(LOGITS, rows)[0]) == 1


def test_sampled_answers_do_not_depend_on_drafts() -> None:
    """A draft's rows, right and wrong ones, sample what single steps sample at those positions."""
    params = SamplingParams(
        temperature=1.2, top_p=0.95, frequency_penalty=0.5, dry_multiplier=1.0, seed=12
    )
    model = torch.from_numpy(np.random.default_rng(6).normal(0, 2, (20, 20))).float()
    plain = Request(0, [1, 2, 3], params)
    while plain.num_output < 60:
        (sampled,) = sample(model[plain.tokens[-1:]], sample_rows(plain, [], []))
        plain.tokens.append(token_of(sampled))
    drafting = Request(1, [1, 2, 3], params)
    while drafting.num_output < 60:
        start = len(drafting.tokens)
        draft = plain.tokens[start : start + 5]
        if start % 2 and len(draft) > 2:
            draft[2] = (draft[2] + 1) % 20
        results = sample(model[[drafting.tokens[-1], *draft]], sample_rows(drafting, draft, []))
        for guess, result in zip([*draft, None], results, strict=True):
            drafting.tokens.append(token_of(result))
            if guess != drafting.tokens[-1]:
                break
    assert drafting.tokens[:63] == plain.tokens
