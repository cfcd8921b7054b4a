"""How the row-by-row kernels are launched: SmolLM2-135M's widths and Llama-3-8B's."""

from __future__ import annotations

from radixchat.tests.kernels.compiled import KernelCase

_WIDTHS = {576: 1024, 4096: 4096}
_NORMS = [
    KernelCase(
        "triton_elementwise",
        "rms_norm_kernel",
        {
            "x": f"*{dtype}",
            "x_stride": "i32",
            "weight": f"*{dtype}",
            "output": f"*{dtype}",
            "size": "i32",
            "eps": "fp32",
        },
        {"BLOCK": block},
        aligned=("x_stride", "size"),
        num_warps=min(block // 256, 8),
        registers=64,
        label=f"{dtype} size {size}",
    )
    for size, block in _WIDTHS.items()
    for dtype in ("bf16", "fp32")
]
_ADD_NORMS = [
    KernelCase(
        "triton_elementwise",
        "add_rms_norm_kernel",
        {
            **dict.fromkeys(("x", "residual", "weight", "output", "total"), f"*{dtype}"),
            "size": "i32",
            "eps": "fp32",
        },
        {"BLOCK": block},
        aligned=("size",),
        num_warps=min(block // 256, 8),
        registers=64,
        label=f"{dtype} size {size}",
    )
    for size, block in _WIDTHS.items()
    for dtype in ("bf16", "fp16")
]
_GATES = [
    KernelCase(
        "triton_elementwise",
        "swiglu_kernel",
        {"gate_up": f"*{dtype}", "output": f"*{dtype}", "size": "i32"},
        {"BLOCK": 1024},
        aligned=("size",),
        registers=64,
        label=dtype,
    )
    for dtype in ("bf16", "fp16", "fp32")
]
CASES = [*_NORMS, *_ADD_NORMS, *_GATES]
