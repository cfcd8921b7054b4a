"""Log-probabilities of chosen tokens and of the most likely ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from radixchat.engine.logprobs import TokenLogprob, prompt_logprobs, token_logprobs
from radixchat.engine.sample_row import SampleRow
from radixchat.engine.sampler import Sampled, sample
from radixchat.engine.sampling_params import SamplingParams


def random_logits(rows: int, vocabulary: int, decimals: int = 6) -> Tensor:
    values = np.random.default_rng(2).normal(0, 3, (rows, vocabulary)).round(decimals)
    return torch.from_numpy(values).float()


@pytest.mark.parametrize("decimals", [6, 0])
def test_logprobs_are_those_of_the_softmax(decimals: int) -> None:
    """Value, rank and alternatives against float64; equal logits are ordered by id."""
    logits = random_logits(20, 50, decimals)
    tops = [i % 7 for i in range(20)]
    tokens = [(i * 13) % 50 for i in range(20)]
    for i, found in enumerate(token_logprobs(logits, tokens, tops)):
        row = logits[i].double().numpy()
        expected = row - math.log(np.exp(row).sum())
        order = np.lexsort((np.arange(50), -row)).tolist()
        assert found.token == tokens[i]
        assert found.logprob == pytest.approx(expected[tokens[i]], abs=1e-5)
        assert found.rank == order.index(tokens[i]) + 1
        assert [token for token, _ in found.top] == order[: tops[i]]
        assert [value for _, value in found.top] == pytest.approx(
            expected[order[: tops[i]]], abs=1e-5
        )


@pytest.mark.usefixtures("two_threads")
def test_logprobs_are_the_same_alone_and_together() -> None:
    """Bit for bit, at a vocabulary where torch has threads share a row."""
    logits, tokens = random_logits(5, 49_152), [7, 49_151, 0, 300, 5]
    together = prompt_logprobs(logits, tokens, 3)
    alone = [prompt_logprobs(logits[i : i + 1], [tokens[i]], 3)[0] for i in range(5)]
    assert together == alone


def test_more_alternatives_than_tokens_are_all_of_them() -> None:
    """A vocabulary smaller than `top` is listed whole; no rows give nothing."""
    (found,) = prompt_logprobs(torch.zeros(1, 3), [2], 20)
    assert found.rank == 3
    assert [token for token, _ in found.top] == [0, 1, 2]
    assert [value for _, value in found.top] == pytest.approx([-math.log(3)] * 3)
    assert prompt_logprobs(torch.zeros(0, 3), [], 20) == []


def test_a_row_that_asks_gets_what_the_model_thought() -> None:
    """Before temperature, bias and cuts; a row that does not ask gets none."""
    logits = torch.tensor([[0.0, 2.0, 1.0]]).expand(3, -1)
    rows = [
        SampleRow(SamplingParams(temperature=0), 0),
        SampleRow(SamplingParams(temperature=0, logprobs=2), 0),
        SampleRow(SamplingParams(temperature=0.01, logprobs=0), 0),
    ]
    silent, two, none = sample(logits, rows)
    first, second = torch.log_softmax(logits[0], 0)[[1, 2]].tolist()
    assert silent == Sampled(1)
    assert two == Sampled(1, TokenLogprob(1, first, 1, ((1, first), (2, second))))
    assert none == Sampled(1, TokenLogprob(1, first, 1))
