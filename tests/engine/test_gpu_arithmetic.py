"""The GPU's arithmetic behind the engine, in Triton's interpreter: what a GPU would answer.

Slow by nature, so a few tokens: the kernels have their own tests.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from radixchat.engine.config import EngineConfig
from radixchat.engine.device_queue import CpuQueue
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import answer, greedy, prompt, run, stored_kv


def gpu_engine(tiny: Checkpoint, *, exact: bool = False, kv: str = "auto") -> Engine:
    """On the CPU, as if it were a GPU."""
    engine = Engine(tiny, EngineConfig(threads=1, max_running=2, exact=exact, kv=kv))
    plan = replace(engine.plan, device="cuda")
    engine.runner = DeviceRunner(tiny, plan, CpuQueue())
    return engine


def test_answers_are_the_cpu_s(tiny: Checkpoint, naive: Engine) -> None:
    """Two that share a prefix of pages, one of them drawn; every step but the first ahead."""
    shared = prompt(64, 1)
    params = [greedy(4), SamplingParams(temperature=0.9, top_k=20, max_tokens=4, seed=3)]
    asked = [([*shared, *prompt(5 + i, i)], p) for i, p in enumerate(params)]
    expected = [answer(naive, tokens, p, p.seed).tokens for tokens, p in asked]
    engine = gpu_engine(tiny)
    answer(engine, shared, greedy(1))
    outcomes = run(engine, [Request(i, list(t), p) for i, (t, p) in enumerate(asked)])
    assert [outcomes[i].tokens for i in range(2)] == expected
    usage = outcomes[1].usage
    assert usage is not None
    assert usage.cached_tokens >= 64
    runner = engine.runner
    assert isinstance(runner, DeviceRunner)
    assert runner.lookahead.held == runner.lookahead.assumed == 6


@pytest.mark.slow
@pytest.mark.parametrize("kv", ["auto", "int8"])
def test_exact_answers_have_the_same_bits_when_they_were_decoded_and_when_not(
    tiny: Checkpoint, kv: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In bf16: of fp32 numbers the interpreter's products depend on the place in a tile."""
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in tiny.dense().items()}
    checkpoint = replace(tiny, tensors=tensors)
    tokens = prompt(20, 2)
    engine = gpu_engine(checkpoint, exact=True, kv=kv)
    assert not caplog.records, "it is not exact here"
    grown = answer(engine, tokens, greedy(4)).tokens
    written = [*tokens, *grown[:-1]]
    whole = gpu_engine(checkpoint, exact=True, kv=kv)
    assert answer(whole, written, greedy(1)).tokens == grown[-1:]
    assert torch.equal(stored_kv(engine, written), stored_kv(whole, written))
    assert engine.runner.pages.k.dtype == (torch.int8 if kv == "int8" else torch.bfloat16)
