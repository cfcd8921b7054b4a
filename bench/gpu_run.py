"""The parts of the GPU benchmark in order, each printed as it is done.

Owns which device, which sizes and which models; knows no kernel.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import triton

from radixchat.bench import gpu_check, gpu_engine, gpu_shapes, gpu_timing
from radixchat.bench.gpu_attend import attended
from radixchat.bench.gpu_ceilings import measure_ceilings
from radixchat.bench.gpu_check_layers import layer_checks, layer_shape
from radixchat.bench.gpu_clock import Clock, CudaClock, HostClock
from radixchat.bench.gpu_models import LLAMA_8B, TINY, file_checkpoint, random_checkpoint
from radixchat.bench.gpu_result import GpuResult
from radixchat.bench.gpu_shapes import GpuShapes
from radixchat.bench.gpu_timeline import CudaTimeline, HostTimeline, Timeline
from radixchat.engine.config import EngineConfig
from radixchat.engine.weights import Checkpoint

# Of a dry run, all of whose other steps are the CPU's: in the interpreter a step takes a second.
TRITON_LOAD = gpu_shapes.EngineLoad(1, 4, 3)

Say = Callable[[str], None]


class NoGpu(Exception):
    """There is none that torch finds."""


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """pieces: of a model's file, in order; parts: of the benchmark; dtype: "bf16" or "fp16"."""

    pieces: tuple[Path, ...]
    parts: tuple[str, ...]
    dtype: str
    with_8b: bool


def run(plan: GpuPlan, say: Say, *, dry: bool) -> GpuResult:
    """All parts of the plan. Raises NoGpu, unless it is a dry run, which needs none."""
    if not dry and not torch.cuda.is_available():
        raise NoGpu("torch finds no CUDA GPU; --dry runs the plan on the CPU")
    dtype = torch.bfloat16 if plan.dtype == "bf16" else torch.float16
    shapes = gpu_shapes.dry() if dry else gpu_shapes.full(dtype)
    device = "interpreter" if dry else torch.cuda.get_device_name()
    result = GpuResult(device, _versions())
    say(f"{device}, " + ", ".join(f"{k} {v}" for k, v in result.versions.items()))
    clock: Clock = HostClock() if dry else CudaClock()
    parts: dict[str, Callable[[], None]] = {
        "checks": lambda: _checks(result, shapes, clock, say),
        "kernels": lambda: _kernels(result, shapes, clock, say),
        "engine": lambda: _engine(result, shapes, clock, say, plan, dry=dry),
    }
    for name in plan.parts:
        began = time.perf_counter()
        parts[name]()
        result.seconds[name] = round(time.perf_counter() - began, 1)
    say("")
    for line in result.goal_lines(judged=not dry):
        say(line)
    if dry:
        say("Nothing is judged: the interpreter's times say nothing of a GPU.")
    return result


def _versions() -> dict[str, str]:
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
    }
    if torch.cuda.is_available():
        versions["cuda"] = str(torch.version.cuda)
    return versions


def _checks(result: GpuResult, shapes: GpuShapes, clock: Clock, say: Say) -> None:
    say("\nchecks: relative error to the reference in double precision")
    device = clock.device
    for check in (
        *gpu_check.row_checks(shapes, device),
        *gpu_check.store_checks(shapes, device),
        *gpu_check.attention_checks(shapes.checks, device, shapes.dtype, attended),
        *(
            check
            for dtype, head_dim, lengths in shapes.layers
            for check in layer_checks(dtype, device, layer_shape(head_dim), lengths)
        ),
    ):
        result.checks.append(check)
        say(check.line())


def _kernels(result: GpuResult, shapes: GpuShapes, clock: Clock, say: Say) -> None:
    ceilings = measure_ceilings(clock, shapes.ceilings, shapes.dtype, result.device)
    result.ceilings = ceilings
    say(
        f"\nceilings: {ceilings.copied / 1e12:.2f} TB/s copied, {ceilings.read / 1e12:.2f} read, "
        f"{ceilings.operations / 1e12:.0f} TFLOP/s; shares below are of "
        f"{ceilings.bandwidth / 1e12:.2f} TB/s and of the latter"
    )
    for name, case in shapes.timed.items():
        result.timings[name] = []
        for timing in gpu_timing.time_attention(case, shapes, clock):
            result.timings[name].append(timing)
            say(timing.line(ceilings))
    result.timings["rows"] = []
    for timing in gpu_timing.time_rows(shapes, clock):
        result.timings["rows"].append(timing)
        say(timing.line(ceilings))


def _engine(
    result: GpuResult, shapes: GpuShapes, clock: Clock, say: Say, plan: GpuPlan, *, dry: bool
) -> None:
    say("\nengine")
    say(gpu_engine.HEAD)
    timeline: Callable[[], Timeline] = HostTimeline if dry else CudaTimeline
    for name, checkpoint in _models(plan, shapes, clock.device, dry=dry):
        for key, timing in _engine_timings(name, checkpoint, shapes, timeline, dry=dry):
            result.engine[key] = timing
            say(timing.line())


def _models(
    plan: GpuPlan, shapes: GpuShapes, device: str, *, dry: bool
) -> Iterator[tuple[str, Checkpoint]]:
    """One at a time: the one before is gone."""
    if plan.pieces:
        yield "file", file_checkpoint(plan.pieces, shapes.dtype)
    if dry:
        yield "tiny", random_checkpoint(TINY, shapes.dtype, device)
    elif plan.with_8b:
        yield "8B", random_checkpoint(LLAMA_8B, shapes.dtype, device)


def _engine_timings(
    name: str,
    checkpoint: Checkpoint,
    shapes: GpuShapes,
    timeline: Callable[[], Timeline],
    *,
    dry: bool,
) -> Iterator[tuple[str, gpu_engine.EngineTiming]]:
    """All loads; the largest once more without looking ahead, with INT8 KV, and exact."""
    most = shapes.engine[-1]
    pool = 2 * most.running * (most.prompt + most.answer)
    device = "cpu" if dry else "cuda"

    def config(**changes: object) -> EngineConfig:
        settings: dict[str, object] = {
            "device": device,
            "pool_tokens": pool,
            "max_running": most.running,
            "max_step_tokens": max(4096, most.running) if not dry else 16,
            "max_mixed_tokens": max(4096, most.running) if not dry else 16,
            "threads": 1,
        }
        return EngineConfig(**(settings | changes))  # type: ignore[arg-type]  # by name

    for load in shapes.engine:
        timing = gpu_engine.measure_engine(name, checkpoint, config(), load, timeline)
        key = _key(name, load.running == 1, load == most)
        yield key or f"{name}, {load.running}", timing
    yield (
        f"{name}, not ahead",
        gpu_engine.measure_engine(
            f"{name}, not ahead", checkpoint, config(), most, timeline, looks_ahead=False
        ),
    )
    if dry and name == "tiny":
        yield (
            f"{name}, Triton",
            gpu_engine.measure_engine(
                f"{name}, Triton", checkpoint, config(), TRITON_LOAD, timeline, interpreted=True
            ),
        )
    for label, changes in (("INT8 KV", {"kv": "int8"}), ("exact", {"exact": True})):
        timing = gpu_engine.measure_engine(
            f"{name}, {label}", checkpoint, config(**changes), most, timeline
        )
        yield f"{name}, {label}", timing


def _key(name: str, is_single: bool, is_most: bool) -> str | None:
    """G5 is of the small model's file (a dry run's tiny one), G6 of the last model."""
    if is_single and name in ("file", "tiny"):
        return "G5"
    return "G6" if is_most and name in ("8B", "tiny") else None
