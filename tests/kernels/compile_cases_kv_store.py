"""How the store of K and V, and a copy of pages, are launched: head sizes 64 and 128."""

from __future__ import annotations

from radixchat.tests.kernels.compiled import KernelCase

_STRIDES = ("k_page", "k_head", "k_position", "v_page", "v_head", "v_position")
_COUNTS = ("page_size", "num_heads", "num_kv_heads")


def _store(dim: int, dtype: str, quantized: bool = False, norms: bool = False) -> KernelCase:
    stored, scales = ("*i8", "*fp16") if quantized else (f"*{dtype}", f"*{dtype}")
    return KernelCase(
        "triton_kv_store",
        "rotate_store_kernel",
        {
            **dict.fromkeys(("qkv", "cos", "sin", "q_norm", "k_norm", "query"), f"*{dtype}"),
            "qkv_stride": "i32",
            "eps": "fp32",
            "slots": "*i64",
            **dict.fromkeys(("k", "v"), stored),
            **dict.fromkeys(("k_scale", "v_scale"), scales),
            **dict.fromkeys((*_STRIDES, "scale_page", "scale_head", *_COUNTS), "i32"),
        },
        {
            # A stride of 1 is a constant to a launch.
            "k_dim": 1,
            "DIM": dim,
            "HALF": dim // 2,
            "HEADS": 8,
            "NORMS": norms,
            "ROTATES": True,
            "QUANTIZED": quantized,
        },
        aligned=("qkv_stride", *_STRIDES, "page_size"),
        registers=96,
        label=f"D {dim} {dtype}{' int8' * quantized}{' norms' * norms}",
    )


def _copy(dtype: str) -> KernelCase:
    strides = ("layer_stride", "page_stride", "head_stride", "position_stride")
    return KernelCase(
        "triton_kv_store",
        "copy_slots_kernel",
        {
            "cache": f"*{dtype}",
            "copies": "*i32",
            "layer_stride": "i64",
            **dict.fromkeys(("num_heads", *strides[1:], "dim"), "i32"),
        },
        {"dim_stride": 1, "POSITIONS": 16, "DIM": 128},
        aligned=(*strides, "dim"),
        registers=64,
        label=dtype,
    )


CASES = [
    *(_store(dim, dtype) for dim in (64, 128) for dtype in ("bf16", "fp16", "fp32")),
    *(_store(dim, "bf16", quantized=True) for dim in (64, 128)),
    _store(128, "bf16", norms=True),
    _store(128, "bf16", quantized=True, norms=True),
    *(_copy(dtype) for dtype in ("bf16", "i8")),
]
