"""The GPU's arithmetic behind the engine, in Triton's interpreter: what a GPU would answer.

Slow by nature, so a few tokens: the kernels have their own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from radixchat.engine.config import EngineConfig
from radixchat.engine.device_queue import CpuQueue
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import answer, greedy, prompt, run, stored_kv


class Capturing(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch gives no types
    """Refuses what CUDA refuses while it captures: to read back, and to bring from the host."""

    REFUSED = frozenset(
        {
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten.equal.default,
            torch.ops.aten.lift_fresh.default,
            torch.ops.aten.nonzero.default,
        }
    )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch does, if it may."""
        assert func not in self.REFUSED, f"{func} in a graph"
        if func is torch.ops.aten.index.Tensor:
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "a count in a graph"
        return func(*args, **(kwargs or {}))


def capturing() -> AbstractContextManager[None]:
    make: Any = Capturing  # what it is made from has no types
    capture: AbstractContextManager[None] = make()
    return capture


class EagerQueue(CpuQueue):
    """The CPU, which runs what it is to capture, as a GPU does: with rows of nobody."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work itself."""
        with capturing():
            work()
        return super().capture(work)


@pytest.mark.parametrize(
    "work",
    [
        lambda ones: ones.sum().item(),
        lambda ones: ones[ones > 0],
        lambda ones: ones[torch.tensor([0])],
        lambda ones: torch.equal(ones, ones),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(work: Callable[[torch.Tensor], object]) -> None:
    """Else the other tests would not see it either."""
    with pytest.raises(AssertionError, match="in a graph"), capturing():
        work(torch.ones(2))


def gpu_engine(tiny: Checkpoint, kv: str = "auto") -> Engine:
    """On the CPU, as if it were a GPU."""
    engine = Engine(tiny, EngineConfig(threads=1, max_running=2, exact=False, kv=kv))
    plan = replace(engine.plan, device="cuda")
    engine.runner = DeviceRunner(tiny, plan, EagerQueue())
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
def test_int8_kv_holds_codes_and_answers_as_the_cpu_does(tiny: Checkpoint) -> None:
    """What is decoded token by token is what is computed at once, but for a code here and there.

    Bits are compared on a GPU: the interpreter's products, numpy's, depend on the place in a tile.
    """
    tokens = prompt(20, 2)
    engine, whole = gpu_engine(tiny, kv="int8"), gpu_engine(tiny, kv="int8")
    grown = answer(engine, tokens, greedy(4)).tokens
    cpu = Engine(tiny, EngineConfig(threads=1, kv="int8"))
    assert grown == answer(cpu, tokens, greedy(4)).tokens
    written = [*tokens, *grown[:-1]]
    assert answer(whole, written, greedy(1)).tokens == grown[-1:]
    assert engine.runner.pages.k.dtype == torch.int8
    same = stored_kv(engine, written) == stored_kv(whole, written)
    assert same.float().mean() > 0.99
