"""How large everything is: the loads of a real run and of a dry one, side by side.

A dry run has every step of the plan at a size that the interpreter manages. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from radixchat.bench.gpu_case import LLAMA_8B, SMOLLM2_135M, AttentionCase, HeadShape
from radixchat.bench.gpu_ceilings import DRY as DRY_CEILINGS
from radixchat.bench.gpu_ceilings import FULL as FULL_CEILINGS
from radixchat.bench.gpu_ceilings import CeilingLoad


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """running: requests that decode together; prompt, answer: tokens of each."""

    running: int
    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class GpuShapes:
    """The sizes of one run.

    checks: attention compared with the reference; timed: by goal, attention that is timed. rows:
    of what is done row by row, a decode step's and a prefill's. engine: the loads of end to end.
    layers: type, head size and lengths of two requests, for the checks of whole layers.
    """

    dtype: torch.dtype
    repeats: int
    ceilings: CeilingLoad
    checks: tuple[AttentionCase, ...]
    timed: Mapping[str, AttentionCase]
    rows: tuple[int, int]
    hidden: int
    intermediate: int
    engine: tuple[EngineLoad, ...]
    layers: tuple[tuple[torch.dtype, int, tuple[int, int]], ...]


def _decode(
    name: str, shape: HeadShape, lengths: tuple[int, ...], kv: torch.dtype, shared: int = 0
) -> AttentionCase:
    return AttentionCase(name, shape, (1,) * len(lengths), lengths, kv, shared=shared)


def _checks(shape: HeadShape, dtype: torch.dtype, long: int) -> tuple[AttentionCase, ...]:
    """The lengths at which something begins or ends: pages of 16, splits of 256."""
    edges = (1, 15, 16, 17, 255, 256, 257)
    mixed = (1, 5, 1, 17, 33, 1)
    cases = []
    for kv in (dtype, torch.int8):
        kind = "INT8" if kv == torch.int8 else str(dtype).removeprefix("torch.")
        cases += [
            _decode(f"decode, lengths at edges, {kind}", shape, edges, kv),
            AttentionCase(
                f"chunks and rows mixed, {kind}", shape, mixed, (40, 5, long, 17, 290, 1), kv
            ),
            _decode(f"decode behind a shared prefix, {kind}", shape, (300, 260, 257), kv, 256),
        ]
    return tuple(cases)


def full(dtype: torch.dtype) -> GpuShapes:
    """What G1 to G7 ask for; dtype: bf16 or fp16."""
    eight_k = (8192,) * 64
    return GpuShapes(
        dtype=dtype,
        repeats=20,
        ceilings=FULL_CEILINGS,
        checks=(
            *_checks(LLAMA_8B, dtype, 8191),
            *_checks(SMOLLM2_135M, dtype, 8191),
            *_checks(LLAMA_8B, torch.float32, 1000),
        ),
        timed={
            "G1": _decode("decode, 64 x 8,192", LLAMA_8B, eight_k, dtype),
            "G2": _decode("decode, 1 x 65,536", LLAMA_8B, (65536,), dtype),
            "G3": _decode("decode, 64 x (4,096 shared + 128)", LLAMA_8B, (4224,) * 64, dtype, 4096),
            "G4": _decode("decode, 64 x 8,192, INT8", LLAMA_8B, eight_k, torch.int8),
            "G7": AttentionCase("prefill, 16,384", LLAMA_8B, (16384,), (16384,), dtype),
            "mixed lengths": _decode(
                "decode, 8,192 and 63 x 128", LLAMA_8B, (8192, *(128,) * 63), dtype
            ),
            "no prefix": _decode(
                "decode, 64 x 4,224, nothing shared", LLAMA_8B, (4224,) * 64, dtype
            ),
            "chunk": AttentionCase("chunk of 512 behind 7,680", LLAMA_8B, (512,), (8192,), dtype),
            "135M": _decode(
                "decode, 64 x 1,024, 9/3 heads of 64", SMOLLM2_135M, (1024,) * 64, dtype
            ),
        },
        rows=(64, 8192),
        hidden=4096,
        intermediate=14336,
        engine=(EngineLoad(1, 512, 256), EngineLoad(8, 512, 256), EngineLoad(64, 512, 256)),
        layers=((dtype, 128, (48, 32)), (dtype, 64, (48, 32)), (torch.float32, 64, (48, 32))),
    )


def dry(dtype: torch.dtype = torch.float32) -> GpuShapes:
    """The same plan for the interpreter, which needs milliseconds a block."""
    small = HeadShape(4, 2, 16)
    return GpuShapes(
        dtype=dtype,
        repeats=1,
        ceilings=DRY_CEILINGS,
        checks=_checks(small, dtype, 300),
        timed={
            "G1": _decode("decode, 3 x 64", small, (64,) * 3, dtype),
            "G2": _decode("decode, 1 x 512", small, (512,), dtype),
            "G3": _decode("decode, 3 x (64 shared + 16)", small, (80,) * 3, dtype, 64),
            "G4": _decode("decode, 3 x 64, INT8", small, (64,) * 3, torch.int8),
            "G7": AttentionCase("prefill, 64", small, (64,), (64,), dtype),
            "mixed lengths": _decode("decode, 256 and 3 x 16", small, (256, 16, 16, 16), dtype),
            "no prefix": _decode("decode, 3 x 80, nothing shared", small, (80,) * 3, dtype),
            "chunk": AttentionCase("chunk of 16 behind 48", small, (16,), (64,), dtype),
            "135M": _decode("decode, 2 x 32", small, (32,) * 2, dtype),
        },
        rows=(2, 16),
        hidden=64,
        intermediate=128,
        engine=(EngineLoad(1, 12, 8), EngineLoad(3, 12, 8)),
        layers=((torch.bfloat16, 16, (6, 4)),),
    )
