"""Sampling in Triton against the engine's own, token for token, and against what it must return."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from radixchat.engine.draw import draw
from radixchat.engine.noise import uniform_noise
from radixchat.engine.sample_row import SampleRow
from radixchat.engine.sampling_params import SamplingParams
from radixchat.kernels.triton_ranking import uniform
from radixchat.kernels.triton_sampling import sample, sampling_rows


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sampled(logits: Tensor, params: list[SamplingParams], positions: list[int]) -> list[int]:
    """The kernel's tokens."""
    rows = sampling_rows(
        [p.seed for p in params],
        positions,
        [p.temperature for p in params],
        [p.top_k for p in params],
        [p.top_p for p in params],
        [p.min_p for p in params],
        "cpu",
    )
    tokens: list[int] = sample(logits, rows).tolist()
    return tokens


def one(logits: list[float], **params: float) -> int:
    """The token of one row."""
    return sampled(torch.tensor([logits]), [SamplingParams(**params)], [0])[0]  # type: ignore[arg-type]  # names with numbers


@triton.jit
def _noise_kernel(seeds: tl.tensor, positions: tl.tensor, output: tl.tensor) -> None:
    i = tl.program_id(0)
    tl.store(output + i, uniform(tl.load(seeds + i), tl.load(positions + i)))


def test_noise_is_the_engines_to_the_bit() -> None:
    """The same fp64 numbers for the same seeds and positions, the largest too."""
    seeds = [0, 1, 42, 2**32, 2**63 - 1]
    pairs = list(itertools.product(seeds, [0, 1, 8191, 2**31]))
    output = torch.empty(len(pairs), dtype=torch.float64)
    _noise_kernel[(len(pairs),)](
        torch.tensor([s for s, _ in pairs]), torch.tensor([p for _, p in pairs]), output
    )
    expected = uniform_noise([s for s, _ in pairs], [p for _, p in pairs])
    assert np.array_equal(output.numpy(), expected)


# temperature, top_k, top_p, min_p
CUTS = [
    (1.0, 0, 1.0, 0.0),
    (0.7, 0, 1.0, 0.1),
    (1.0, 40, 1.0, 0.0),
    (1.5, 0, 0.95, 0.0),
    (0.7, 0, 0.5, 0.1),
    (1.5, 40, 0.8, 0.05),
    (2.0, 1, 1.0, 0.0),
    (2.0, 12, 1.0, 0.5),
    (2.0, 0, 0.99, 0.6),
    (1.0, 2200, 1.0, 0.0),
    (0.8, 99_999, 0.9, 0.0),
]


@pytest.mark.parametrize(("vocabulary", "rounds"), [(17, 2), (2500, 1)])
def test_tokens_are_those_the_engine_draws(vocabulary: int, rounds: int) -> None:
    """Every cut alone and with others, at several temperatures, seeds and positions."""
    rows = [
        SamplingParams(temperature=t, top_k=k, top_p=p, min_p=m, seed=seed)
        for seed, (t, k, p, m) in enumerate(CUTS * rounds)
    ]
    logits = randn(len(rows), vocabulary) * 3
    positions = [7 * i for i in range(len(rows))]
    expected = draw(logits, [SampleRow(p, at) for p, at in zip(rows, positions, strict=True)])
    assert sampled(logits, rows, positions) == expected.tolist()


def test_greedy_rows_take_the_lowest_id_of_equal_logits() -> None:
    """Across the blocks that a row is read in, too."""
    logits = torch.full((1, 5000), -1.0)
    logits[0, [2500, 301, 301 + 2048, 4700]] = 7.0
    assert sampled(logits, [SamplingParams(temperature=0)], [0]) == [301]
    assert sampled(torch.zeros(1, 9), [SamplingParams(temperature=0)], [0]) == [0]


def test_of_equal_weights_top_k_keeps_the_lowest_ids() -> None:
    """As a stable sort does; all ids that it may draw are drawn."""
    rows = [SamplingParams(top_k=3, seed=seed) for seed in range(12)]
    logits = torch.zeros(12, 260)
    logits[:, 0] = -1
    assert set(sampled(logits, rows, [0] * 12)) == {1, 2, 3}


def test_a_row_without_a_token_is_marked_and_disturbs_no_other() -> None:
    """NaN, inf, and nothing but -inf give -1, greedy or drawn; -inf alone excludes a token."""
    logits = randn(8, 300)
    logits[1, 7] = torch.nan
    logits[2, 299] = torch.inf
    logits[3] = -torch.inf
    logits[4, :299] = -torch.inf
    logits[5, 3] = torch.nan
    params = [SamplingParams(top_k=5) for _ in range(8)]
    params[5] = SamplingParams(temperature=0)
    params[6] = SamplingParams()
    tokens = sampled(logits, params, list(range(8)))
    assert [tokens[i] for i in (1, 2, 3, 4, 5)] == [-1, -1, -1, 299, -1]
    for i in (0, 6, 7):
        assert tokens[i] == sampled(logits[i : i + 1], [params[i]], [i])[0] >= 0


def test_extremes_of_the_parameters_are_served() -> None:
    """A tiny temperature is greedy; a tiny top_p and a top_k of 1 leave the likeliest alone."""
    logits = [1.0, 3.0, 2.999, -200.0]
    assert one(logits, temperature=1e-9) == 1
    assert one(logits, top_p=1e-9) == 1
    assert one(logits, top_k=1, temperature=10) == 1
    assert one(logits, min_p=0.9999) == 1
    assert one([5.0], top_p=0.5) == 0
    assert one([-1e30, -torch.inf], temperature=0.1) == 0


def test_rows_may_be_parts_of_wider_ones_and_none_at_all() -> None:
    """A view is read where it lies; no rows are no launch."""
    wide = randn(3, 640)
    wide[:, 600:] = torch.nan
    params = [SamplingParams(top_p=0.9), SamplingParams(), SamplingParams(temperature=0)]
    found = sampled(wide[:, :600], params, [1, 2, 3])
    assert found == sampled(wide[:, :600].clone(), params, [1, 2, 3])
    assert min(found) >= 0
    assert sampled(wide[:0], [], []) == []


def test_a_vocabulary_beyond_the_keys_is_refused() -> None:
    """Ids have 20 bits."""
    logits = torch.zeros(1, 1).expand(1, 2**20 + 1)
    with pytest.raises(ValueError, match="1048577"):
        sampled(logits, [SamplingParams()], [0])
