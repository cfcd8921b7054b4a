"""How the exact products are launched: one case for each tile and type."""

from __future__ import annotations

import torch
import triton.language as tl

from radixchat.kernels.triton_linear import linear_tile
from radixchat.tests.kernels.compiled import KernelCase

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_OPERANDS = {"bf16": tl.bfloat16, "fp16": tl.float16, "fp32": tl.float32}


def _case(out_features: int, dtype: str, output: str, bias: bool = False) -> KernelCase:
    tile = linear_tile(out_features, _TYPES[dtype])
    return KernelCase(
        "triton_linear",
        "linear_kernel",
        {
            **dict.fromkeys(("x", "weight", "bias"), f"*{dtype}"),
            "output": f"*{output}",
            **dict.fromkeys(
                ("x_stride", "weight_stride", "rows", "out_features", "in_features"), "i32"
            ),
        },
        {
            "ROWS": tile.rows,
            "OUTPUTS": tile.outputs,
            "INPUTS": tile.inputs,
            "BIAS": bias,
            "OPERAND": _OPERANDS[dtype],
        },
        aligned=("x_stride", "weight_stride", "out_features", "in_features"),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        registers=168,
        label=f"{out_features} outputs {dtype} to {output}",
    )


CASES = [
    _case(576, "bf16", "bf16"),
    _case(960, "fp16", "fp16", bias=True),
    _case(6144, "bf16", "bf16"),
    _case(28672, "fp16", "fp16"),
    _case(49152, "bf16", "fp32"),
    _case(49152, "fp32", "fp32"),
]
