"""The engine end to end on a GPU: requests that decode together, a step's time, and idle time.

Knows no kernel. G5 and G6 come from here. Nothing is guessed from a text, no prompt shares anything
with another, and every answer has its full length.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from radixchat.bench.gpu_shapes import EngineLoad
from radixchat.bench.gpu_timeline import Timeline
from radixchat.engine.config import EngineConfig
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class EngineTiming:
    """What one load came to.

    ttft_ms: median from the start to a request's first token. step_ms, device_ms: median of a
    step in which all decode, and of that on the device. idle: the device's share of the time in
    which it had nothing to do, between the first of these steps and the last. held: of the rows
    that were asked for ahead.
    """

    name: str
    running: int
    prompt: int
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    ttft_ms: float
    step_ms: float
    device_ms: float
    idle: float
    held: float

    def line(self) -> str:
        """For the table."""
        return (
            f"  {self.name:<34}{self.running:>4} x {self.prompt:>5}"
            f"{self.prefill_tokens_per_s:>11,.0f}{self.decode_tokens_per_s:>11,.0f}"
            f"{self.ttft_ms:>10.2f}{self.step_ms:>10.3f}{self.device_ms:>10.3f}{self.idle:>8.1%}"
            f"{self.held:>8.1%}"
        )


HEAD = (
    f"  {'':<34}{'requests':>12}{'prefill/s':>11}{'decode/s':>11}{'ttft ms':>10}{'step ms':>10}"
    f"{'device':>10}{'idle':>8}{'held':>8}"
)


def measure_engine(
    name: str,
    checkpoint: Checkpoint,
    config: EngineConfig,
    load: EngineLoad,
    timeline: Callable[[], Timeline],
    *,
    looks_ahead: bool = True,
    interpreted: bool = False,
) -> EngineTiming:
    """Run the load once after a short one that does not count.

    interpreted: by the GPU's kernels, on the CPU.
    """
    # Graphs and their model hold each other: six engines of an 8B model are more than a GPU has.
    gc.collect()
    watched = timeline()
    engine = Engine(checkpoint, config, queue=watched.queue, looks_ahead=looks_ahead)
    if interpreted:
        plan = replace(engine.plan, device="cuda", exact=False)
        engine.runner = DeviceRunner(checkpoint, plan, watched.queue)
    runner = engine.runner
    assert isinstance(runner, DeviceRunner)
    _run(engine, EngineLoad(load.running, load.prompt, 2), seed=1, started=lambda: None)
    before = runner.lookahead.assumed, runner.lookahead.held
    run = _run(engine, load, seed=2, started=watched.clear)
    busy = watched.read()
    assumed, held = (
        now - then
        for now, then in zip((runner.lookahead.assumed, runner.lookahead.held), before, strict=True)
    )
    decoded = load.running * (load.answer - 1)
    return EngineTiming(
        name=name,
        running=load.running,
        prompt=load.prompt,
        prefill_tokens_per_s=load.running * load.prompt / run.prefill_s,
        decode_tokens_per_s=decoded / run.decode_s,
        ttft_ms=statistics.median(run.first_s) * 1e3,
        step_ms=statistics.median(run.step_s) * 1e3,
        device_ms=busy.median_ms,
        idle=busy.idle,
        held=held / assumed if assumed else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    prefill_s: float
    decode_s: float
    first_s: list[float]
    step_s: list[float]  # of steps in which all decode


def _run(engine: Engine, load: EngineLoad, seed: int, started: Callable[[], None]) -> _Run:
    """started: called when all requests have their first token."""
    rng = random.Random(seed)
    params = SamplingParams(temperature=0, max_tokens=load.answer)
    vocabulary = engine.plan.vocab_size
    for number in range(load.running):
        tokens = [rng.randrange(vocabulary) for _ in range(load.prompt)]
        engine.submit(Request(seed * 1000 + number, tokens, params))
    began = time.perf_counter()
    first: dict[int, float] = {}
    steps: list[float] = []
    prefilled = began
    while engine.has_work:
        at = time.perf_counter()
        events = engine.step()
        now = time.perf_counter()
        if len(first) == load.running:
            steps.append(now - at)
        for event in events:
            first.setdefault(event.request_id, now - began)
        if len(first) == load.running and prefilled == began:
            prefilled = now
            started()
    engine.cache.flush()
    return _Run(prefilled - began, time.perf_counter() - prefilled, list(first.values()), steps)
