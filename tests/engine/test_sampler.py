"""Sampling: filters, reproducibility, and the distribution it draws from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidSamplingParams
from radixchat.engine.sampler import SampleRow, sample, uniform_noise
from radixchat.engine.sampling_params import SamplingParams

LOGITS = torch.tensor([[1.0, 3.0, 2.0, -1.0, 3.0]])


def draws(logits: torch.Tensor, params: SamplingParams, count: int) -> np.ndarray:
    """`count` tokens of one distribution, at positions 0, 1, 2, ..."""
    rows = [SampleRow(replace(params, seed=7), i) for i in range(count)]
    return np.bincount(sample(logits.expand(count, -1), rows), minlength=logits.shape[1])


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    """Greedy is argmax; a tie goes to the lowest id."""
    assert sample(LOGITS, [SampleRow(SamplingParams(temperature=0), 0)]) == [1]


def test_draws_follow_the_softmax() -> None:
    """Twenty thousand draws match the probabilities within four standard errors."""
    counts = draws(LOGITS, SamplingParams(temperature=0.8), 20_000)
    expected = torch.softmax(LOGITS[0] / 0.8, 0).numpy()
    errors = np.sqrt(expected * (1 - expected) / 20_000)
    assert (np.abs(counts / 20_000 - expected) < 4 * errors + 1e-9).all()


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        (SamplingParams(top_k=1), {1}),
        (SamplingParams(top_k=2), {1, 4}),
        (SamplingParams(top_k=3), {1, 2, 4}),
        (SamplingParams(top_p=1e-6), {1}),
        (SamplingParams(top_p=0.5), {1, 4}),
        (SamplingParams(min_p=0.99), {1, 4}),
        (SamplingParams(min_p=0.2), {1, 2, 4}),
        (SamplingParams(top_k=3, top_p=0.5), {1, 4}),
        (SamplingParams(temperature=1e-9), {1, 4}),
        (SamplingParams(temperature=10), {0, 1, 2, 3, 4}),
    ],
)
def test_filters_keep_exactly_the_allowed_tokens(params: SamplingParams, allowed: set[int]) -> None:
    """top_k, top_p and min_p cut the tail, alone and together, and nothing else."""
    assert set(np.flatnonzero(draws(LOGITS, params, 2_000))) == allowed


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=40),
    st.floats(0, 10),
    st.integers(0, 50),
    st.floats(0.001, 1),
    st.floats(0, 0.99),
    st.integers(0, 2**63 - 1),
    st.integers(0, 100_000),
)
def test_a_row_gives_the_same_token_alone_and_in_any_batch(
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int,
    position: int,
) -> None:
    """The token is a function of (logits, parameters, seed, position), whatever else is drawn."""
    row = SampleRow(SamplingParams(temperature, top_k, top_p, min_p, seed), position)
    others = [
        SampleRow(SamplingParams(temperature=0), 1),
        SampleRow(SamplingParams(temperature=2.0, top_k=3, seed=99), 4),
    ]
    one = torch.tensor([logits])
    alone = sample(one, [row])[0]
    batch = torch.cat((one.flip(1), one, one * 0.5))
    assert sample(batch, [others[0], row, others[1]])[1] == alone


def test_noise_is_uniform_and_differs_by_seed_and_position() -> None:
    """Mean and variance of a uniform; neighbouring seeds and positions are uncorrelated."""
    noise = uniform_noise([5] * 50_000, list(range(50_000)))
    assert abs(noise.mean() - 0.5) < 0.006
    assert abs(noise.var() - 1 / 12) < 0.003
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.02
    by_seed = uniform_noise(list(range(50_000)), [3] * 50_000)
    assert abs(np.corrcoef(by_seed[:-1], by_seed[1:])[0, 1]) < 0.02
    assert len(set(by_seed)) == 50_000
    assert noise.min() >= 0
    assert noise.max() < 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", 1.0),
        ("seed", -1),
        ("seed", 2**63),
        ("max_tokens", 0),
    ],
)
def test_impossible_parameters_are_named(field: str, value: float) -> None:
    """The error says which parameter, its value, and the range."""
    with pytest.raises(InvalidSamplingParams, match=f"{field} is .*allowed"):
        SamplingParams(**{field: value})  # type: ignore[arg-type]  # one field, many types
