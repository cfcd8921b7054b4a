"""Drawing: temperature, the four cuts, and the distribution that tokens come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from radixchat.engine.draw import draw, typical
from radixchat.engine.noise import uniform_noise
from radixchat.engine.sample_row import SampleRow
from radixchat.engine.sampling_params import SamplingParams
from radixchat.tests.engine import sampling_reference as reference

LOGITS = torch.tensor([[1.0, 3.0, 2.0, -1.0, 3.0]])

CUTS = [
    SamplingParams(),
    SamplingParams(temperature=0.7),
    SamplingParams(temperature=3.0, top_k=12),
    SamplingParams(top_p=0.8),
    SamplingParams(min_p=0.1),
    SamplingParams(typical_p=0.6),
    SamplingParams(typical_p=0.9, top_k=10, top_p=0.9, min_p=0.05),
    SamplingParams(temperature=1.5, typical_p=0.95, min_p=0.2),
    SamplingParams(top_k=500, top_p=0.95),
    SamplingParams(temperature=5.0, typical_p=0.3),
    SamplingParams(temperature=2.0, typical_p=0.5, top_p=0.6),
]


def draws(logits: Tensor, params: SamplingParams, count: int, seed: int = 7) -> np.ndarray:
    """How often each token is drawn, at positions 0, 1, 2, ..."""
    seeded = replace(params, seed=seed)
    rows = [SampleRow(seeded, i) for i in range(count)]
    tokens = draw(logits.expand(count, -1), rows)
    return np.bincount(tokens.numpy(), minlength=logits.shape[1])


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
        # Surprises 3.1, 1.1, 2.1, 5.1, 1.1 and entropy 1.3: the two likeliest are the nearest.
        (SamplingParams(typical_p=0.5), {1, 4}),
        # top_p on what top_k left: of 0.5 and 0.5 the first is enough, of 0.4 and 0.4 it is not.
        (SamplingParams(top_k=2, top_p=0.45), {1}),
        (SamplingParams(top_p=0.45), {1, 4}),
    ],
)
def test_cuts_keep_exactly_the_allowed_tokens(params: SamplingParams, allowed: set[int]) -> None:
    """Each cut takes the tail away, alone and together, and nothing else."""
    assert set(np.flatnonzero(draws(LOGITS, params, 2_000))) == allowed


def test_typical_p_may_leave_out_the_likeliest_token() -> None:
    """One token of probability 0.4 beside many unlikely ones is the least typical."""
    logits = torch.zeros(1, 200)
    logits[0, 5] = np.log(199 * 0.4 / 0.6)
    assert draws(logits, SamplingParams(typical_p=0.4), 2_000)[5] == 0
    assert draws(logits, SamplingParams(typical_p=0.9), 2_000)[5] > 700


def test_a_cut_ends_where_its_mass_is_reached() -> None:
    """Of four equal tokens half the mass is two, the first two."""
    for params in (SamplingParams(top_p=0.5), SamplingParams(typical_p=0.5)):
        assert set(np.flatnonzero(draws(torch.zeros(1, 4), params, 500))) == {0, 1}


def test_typical_p_counts_unlikely_tokens_that_are_nearer_than_likely_ones() -> None:
    """They are too many to be nothing: with them the mass is reached before the likeliest token.

    1,900 of 0.87 together, 3,099 of 0.03 together, and one of 0.1; surprises 7.7, 11.5 and 2.3,
    entropy 7.3.
    """
    weights = torch.tensor([0.1] + [0.87 / 1_900] * 1_900 + [0.03 / 3_099] * 3_099)
    counts = draws(weights.log().unsqueeze(0), SamplingParams(typical_p=0.89), 500)
    assert counts[0] == 0


@pytest.mark.parametrize("params", CUTS)
def test_draws_follow_the_distribution(params: SamplingParams) -> None:
    """Chi-square of 20,000 draws of 30 tokens against float64 stays within four deviations."""
    logits = torch.from_numpy(np.random.default_rng(3).normal(0, 1, (1, 30))).float()
    expected = reference.probabilities(logits[0].double().numpy(), params) * 20_000
    counts = draws(logits, params, 20_000)
    assert not counts[expected == 0].any()
    possible = expected > 0
    surplus = (counts - expected)[possible] ** 2 / expected[possible]
    freedom = possible.sum() - 1
    assert freedom >= 1
    assert surplus.sum() < freedom + 4 * np.sqrt(2 * freedom)


def test_every_token_is_the_inverse_of_its_noise() -> None:
    """Large random rows, all cuts in one batch: each token covers its noise in float64 too."""
    random = np.random.default_rng(11)
    scale = random.uniform(0.5, 6, (200, 1))
    logits = torch.from_numpy(random.normal(0, 1, (200, 3_000)) * scale).float()
    logits[:, 100:200] = -np.inf
    rows = [SampleRow(replace(CUTS[i % len(CUTS)], seed=i), i) for i in range(200)]
    tokens = draw(logits, rows).tolist()
    for row, token, scores in zip(rows, tokens, logits.double().numpy(), strict=True):
        weights = reference.probabilities(scores, row.params)
        ranked = row.params.top_k or row.params.top_p < 1
        order = np.lexsort((np.arange(3_000), -weights)) if ranked else np.arange(3_000)
        place = int(np.flatnonzero(order == token)[0])
        below = weights[order[:place]].sum()
        noise = uniform_noise([row.params.seed], [row.position])[0]
        assert weights[token] > 0
        assert below - 1e-4 <= noise <= below + weights[token] + 1e-4


def test_a_large_vocabulary_is_cut_as_a_small_one() -> None:
    """Tokens that no row can keep are dropped before the sort, and that shows nowhere."""
    random = np.random.default_rng(5)
    for params in CUTS:
        logits = torch.from_numpy(random.normal(0, 3, (1, 50_000))).float()
        kept = np.flatnonzero(reference.probabilities(logits[0].double().numpy(), params))
        drawn = np.flatnonzero(draws(logits, params, 8))
        assert set(drawn) <= set(kept), params


def test_an_excluded_token_never_comes_even_at_the_edge_of_the_noise() -> None:
    """The highest noise ends at the last token that may come, not at one of weight 0."""
    logits = torch.full((1, 64), -torch.inf)
    logits[0, [3, 40]] = 0.0
    for params in CUTS:
        counts = draws(logits, params, 3_000)
        assert set(np.flatnonzero(counts)) <= {3, 40}, params


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=40),
    st.floats(0.01, 10),
    st.integers(0, 50),
    st.floats(0.001, 1),
    st.floats(0, 0.99),
    st.floats(0.001, 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 100_000),
)
def test_a_row_gives_the_same_token_alone_and_in_any_batch(
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    typical_p: float,
    seed: int,
    position: int,
) -> None:
    """The token is a function of (logits, parameters, seed, position), whatever else is drawn."""
    params = SamplingParams(temperature, top_k, top_p, min_p, typical_p, seed=seed)
    row = SampleRow(params, position)
    others = [
        SampleRow(SamplingParams(temperature=9.0, typical_p=0.99), 1),
        SampleRow(SamplingParams(temperature=2.0, top_k=3, seed=99), 4),
        SampleRow(SamplingParams(top_p=0.999, seed=5), 2),
    ]
    one = torch.tensor([logits])
    alone = draw(one, [row])[0]
    batch = torch.cat((one.flip(1), one, one * 0.5, one * 0.1))
    assert draw(batch, [others[0], row, *others[1:]])[1] == alone


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("params", CUTS)
def test_large_rows_too_are_drawn_alike_alone_and_in_a_batch(params: SamplingParams) -> None:
    """At a vocabulary where torch has threads share a row."""
    random = np.random.default_rng(9)
    logits = torch.from_numpy(random.normal(0, 2, (7, 49_152))).float()
    rows = [SampleRow(replace(params, seed=i), i) for i in range(7)]
    together = draw(logits, rows).tolist()
    assert together == [draw(logits[i : i + 1], [rows[i]]).item() for i in range(7)]


@pytest.mark.usefixtures("two_threads")
def test_the_weights_of_large_rows_are_the_same_bits_alone() -> None:
    """What is left after typical_p, of a row alone and of the same row among others."""
    random = np.random.default_rng(9)
    weights = torch.softmax(torch.from_numpy(random.normal(0, 2, (7, 49_152))).float(), dim=-1)
    params = [SamplingParams(typical_p=0.9)] * 7
    together = typical(weights, params)
    for i in range(7):
        assert torch.equal(typical(weights[i : i + 1], params[:1])[0], together[i])
