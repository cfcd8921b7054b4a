"""How the attention kernels are launched on a GPU."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import triton.language as tl

from radixchat.kernels.attention_buffers import SPLIT_KEYS
from radixchat.kernels.attention_tiles import AttentionTiles, tile_choice
from radixchat.tests.kernels.compiled import KernelCase

_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.int8: "i8"}
_OPERANDS = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
_STRIDES = ("query_stride", "k_page", "k_head", "k_slot", "v_page", "v_head", "v_slot")
_UNALIGNED = ("table_stride", "scale_page", "scale_head")
_INTS = ("page_tables", "items", "program_starts", "rows", "part_base")


def attend(
    tiles: AttentionTiles,
    dim: int,
    group: int,
    dtype: torch.dtype,
    kv_dtype: torch.dtype,
    label: str,
    split: int = 0,
    spills: int = 0,
) -> KernelCase:
    """The attention kernel as `triton_attention.attend` launches it."""
    int8 = kv_dtype == torch.int8
    types = {"query": f"*{_NAMES[dtype]}", "output": f"*{_NAMES[dtype]}"}
    types |= dict.fromkeys(("k", "v"), f"*{_NAMES[kv_dtype]}")
    types |= dict.fromkeys(("k_scale", "v_scale"), "*fp16" if int8 else f"*{_NAMES[kv_dtype]}")
    types |= dict.fromkeys(_INTS, "*i32") | {"part_sums": "*fp32", "part_totals": "*fp32"}
    types |= dict.fromkeys((*_STRIDES, *_UNALIGNED), "i32")
    constants: dict[str, Any] = {
        "k_dim": 1, "v_dim": 1, "scale_slot": 1,
        "GROUP": group, "DIM": dim, "BLOCK_DIM": 1 << (dim - 1).bit_length(), "PAGE": 16,
        "ROWS": tiles.rows, "KEYS": tiles.keys, "SPLIT": split,
        "INT8": int8, "OPERAND": _OPERANDS[dtype],
    }  # fmt: skip
    return KernelCase(
        "triton_attention", "attend_kernel", types, constants, _STRIDES,
        num_warps=tiles.num_warps, num_stages=tiles.num_stages, spills=spills,
        label=f"{label} {dim} {_NAMES[dtype]} {_NAMES[kv_dtype]}",
    )  # fmt: skip


def merge(dim: int, dtype: torch.dtype, parts: int) -> KernelCase:
    """The kernel that merges parts."""
    pointers = {"output": f"*{_NAMES[dtype]}", "part_sums": "*fp32", "part_totals": "*fp32"}
    pointers |= dict.fromkeys(("merge_rows", "part_base", "part_count"), "*i32")
    constants = {"DIM": dim, "BLOCK_DIM": 1 << (dim - 1).bit_length(), "PARTS": parts}
    return KernelCase(
        "triton_attention", "merge_kernel", pointers, constants, label=f"{dim} by {parts}"
    )


def _attention_cases() -> list[KernelCase]:
    bf16, listed = torch.bfloat16, list[KernelCase]()
    for dim, kv in itertools.product((64, 128), (bf16, torch.int8)):
        tiles = tile_choice(dim, 4, bf16, kv, exact=False)
        exact = tile_choice(dim, 4, bf16, kv, exact=True).narrow
        listed.append(attend(tiles.narrow, dim, 4, bf16, kv, "narrow"))
        # What decodes spills nothing.
        listed.append(attend(tiles.wide, dim, 4, bf16, kv, "wide", spills=96))
        listed.append(attend(exact, dim, 4, bf16, kv, "exact", SPLIT_KEYS, spills=48))
    small = tile_choice(64, 3, torch.float32, torch.float32, exact=False).narrow
    listed.append(attend(small, 64, 3, torch.float32, torch.float32, "narrow"))
    return listed


CASES = [
    *_attention_cases(),
    merge(128, torch.bfloat16, 32),
    merge(64, torch.float32, 1),
]
