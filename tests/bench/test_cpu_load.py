"""What `bench cpu` asks for, and what times come to."""

from __future__ import annotations

import random

import pytest

from radixchat.bench.cpu_load import FULL, PARTS, QUICK, Load


def test_names_and_keys_are_those_of_one_load() -> None:
    """For people and for scripts; the full effort has what README names."""
    names = [load.name for load in FULL.loads]
    assert names == [
        "decode at 16",
        "decode at 1,024",
        "decode at 4,096",
        "prefill of 128",
        "prefill of 512",
        "prefill of 2,048",
        "8 decoding at 16",
        "8 decoding at 512",
    ]
    assert [load.key for load in FULL.loads][1::3] == [
        "decode_1024",
        "prefill_512",
        "decode_512_x8",
    ]
    for effort in (FULL, QUICK):
        assert {load.part for load in effort.loads} | {"start"} == set(PARTS)
        assert len({load.key for load in effort.loads}) == len(effort.loads)


@pytest.mark.parametrize(
    ("load", "seconds", "rate"),
    [
        (Load("decode", 16), [0.01, 0.5, 0.01], 100.0),
        (Load("decode", 16, 8), [0.01, 0.02, 0.04], 400.0),
        (Load("prefill", 512), [1.0, 2.0, 4.0], 256.0),
    ],
)
def test_the_median_counts(load: Load, seconds: list[float], rate: float) -> None:
    """A step gives a token for each answer, a prompt has as many as its context."""
    assert load.tokens_per_second(seconds) == rate


def test_prompts_are_as_long_as_the_context_and_differ() -> None:
    """One an answer, of the model's tokens."""
    prompts = Load("decode", 40, 3).prompts(random.Random(1), 50)
    assert [len(prompt) for prompt in prompts] == [40, 40, 40]
    assert len(set(map(tuple, prompts))) == 3
    assert all(0 <= token < 50 for prompt in prompts for token in prompt)


def test_a_step_reads_the_weights_once_and_each_answers_kv() -> None:
    """Whatever the number of answers."""
    assert Load("decode", 100, 8).step_bytes(1000, 2) == 1000 + 8 * 100 * 2
