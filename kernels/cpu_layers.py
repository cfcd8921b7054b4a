"""A decoder's layers on the CPU: one Numba call a step, whose threads meet a few times a layer.

```
  part 0         part 1         each part: its share of one operation
  norm           norm           rows; a few rows are normalised by every part for itself
  qkv            qkv            rows or panels of the product
  rotate, store  rotate, store  rows: K and V are in the pool before anybody reads them
  attend         attend         the plan's work items
  fold           fold           rows of blocks that were attended in pieces
  out            out            added to the residual; then norm, gate and up, swiglu, down
```
Owns the memory of a step, which the next one uses again. Knows no request, and no order of
additions: that is the kernels' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from numba import prange
from numpy.typing import NDArray
from torch import Tensor

from radixchat.kernels.cpu_attention import attend_entry, fold, scratch_bytes
from radixchat.kernels.cpu_elementwise import rms_norm_rows, swiglu_rows
from radixchat.kernels.cpu_entry import call
from radixchat.kernels.cpu_jit import jit, parallel_jit
from radixchat.kernels.cpu_kv import DIM, NUM_KV_HEADS, describe_kv
from radixchat.kernels.cpu_pack import pack_fp32
from radixchat.kernels.cpu_plan import plan_attention
from radixchat.kernels.cpu_product import SCRATCH_BYTES, share_entry
from radixchat.kernels.cpu_rotary import rotate_store
from radixchat.kernels.cpu_simd import load_scalar, store_scalar
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape, LayerWeights
from radixchat.kernels.packed_matrix import Matrix, PackedMatrix
from radixchat.kernels.ragged import Ragged

# Numbers of a layer: addresses of fp32 vectors, 0 for none; ROTATES is 0 or 1.
INPUT_NORM, MIDDLE_NORM, QKV_BIAS, OUT_BIAS, Q_NORM, K_NORM, ROTATES = range(7)
# Matrices of a layer.
QKV, OUT, GATE_UP, DOWN = range(4)
# Numbers of a step. Strides and sizes in bytes where they say so, the rest counts or addresses.
HIDDEN, ROWS, SIZE, INTERMEDIATE, NUM_HEADS, HEADS_BYTES, QKV_BYTES = range(7)
COS, SIN, STATES, NORMED, QKV_AT, ATTENDED, GATE_UP_AT = range(7, 14)
SCRATCH, PART_BYTES, NUM_PARTS = range(14, 17)
TABLES, NUM_REQUESTS, TABLE_WIDTH, ITEMS, NUM_ITEMS, BOUNDS = range(17, 23)
# Operations of a layer, in order.
(
    NORM_INPUT, PROJECT_QKV, ROTATE, ATTEND, FOLD, PROJECT_OUT, NORM_MIDDLE, PROJECT_GATE_UP,
    GATE, PROJECT_DOWN,
) = range(10)  # fmt: skip
OPERATIONS = 10
# Up to so many rows each part normalises them all, which is less than another meeting.
FEW_ROWS = 4
LINE = 64


class CpuLayers:
    """A LayerStack of fp32 rows and packed matrices; a dense matrix is packed as it comes."""

    row_alignment = 1

    def __init__(
        self, shape: LayerShape, layers: Sequence[LayerWeights], threads: int | None = None
    ) -> None:
        """threads: None for all that Numba has."""
        self._shape = shape
        self._threads = threads = threads or numba.config.NUMBA_NUM_THREADS
        packed = [
            [_packed(m) for m in (layer.qkv, layer.out, layer.gate_up, layer.down)]
            for layer in layers
        ]
        vectors = [_vectors(layer) for layer in layers]
        self._kept = (packed, vectors)  # whose addresses are in the next two
        self._matrices = np.array([[matrix.describe() for matrix in four] for four in packed])
        self._layers = np.array(
            [
                [*(0 if v is None else v.data_ptr() for v in six), layer.rotates]
                for six, layer in zip(vectors, layers, strict=True)
            ],
            dtype=np.int64,
        )
        self._hidden_size = packed[0][OUT].out_features
        self._intermediate = packed[0][DOWN].in_features
        assert self._intermediate % 16 == 0, self._intermediate
        attention = scratch_bytes(shape.num_heads, shape.num_kv_heads, shape.head_dim)
        self._part_bytes = -(-max(SCRATCH_BYTES, attention) // LINE) * LINE
        self._scratch = np.empty(threads * self._part_bytes + LINE, dtype=np.uint8)
        self._buffer = np.empty(0, dtype=np.uint8)
        self._pages: tuple[KVPages, NDArray[np.int64]] | None = None

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack; hidden fp32, and what comes back is the same tensor, written over."""
        shape, rows = self._shape, hidden.shape[0]
        assert hidden.dtype == torch.float32
        hidden, cos, sin = hidden.contiguous(), cos.contiguous(), sin.contiguous()
        plan = plan_attention(
            step, shape.num_heads, shape.num_kv_heads, shape.head_dim, self._threads
        )
        places = self._places(rows)
        numba.set_num_threads(min(self._threads, numba.config.NUMBA_NUM_THREADS))
        heads_bytes = 4 * shape.num_heads * shape.head_dim
        qkv_bytes = heads_bytes + 8 * shape.num_kv_heads * shape.head_dim
        tables, items, bounds = plan.tables, plan.items, plan.bounds
        numbers = (
            hidden.data_ptr(), rows, self._hidden_size, self._intermediate, shape.num_heads,
            heads_bytes, qkv_bytes, cos.data_ptr(), sin.data_ptr(), plan.states.ctypes.data,
            *places, _aligned(self._scratch), self._part_bytes, self._threads,
            tables.ctypes.data, *tables.shape, items.ctypes.data, len(items), bounds.ctypes.data,
        )  # fmt: skip
        kvs = self._kv(pages)
        _run(
            np.array(numbers), shape.rms_eps, self._layers, self._matrices, kvs, step.slots.numpy(),
            plan.folds, share_entry().address, attend_entry().address,
        )  # fmt: skip
        return hidden

    def _kv(self, pages: KVPages) -> NDArray[np.int64]:
        if self._pages is None or self._pages[0] is not pages:
            layers = [describe_kv(pages.layer(i)) for i in range(len(self._layers))]
            self._pages = (pages, np.array(layers))
        return self._pages[1]

    def _places(self, rows: int) -> list[int]:
        """Addresses of what a step of so many rows writes between its operations."""
        shape = self._shape
        heads = shape.num_heads * shape.head_dim
        sizes = [
            max(rows, FEW_ROWS * self._threads) * self._hidden_size,
            rows * (heads + 2 * shape.num_kv_heads * shape.head_dim),
            rows * heads,
            rows * 2 * self._intermediate,
        ]
        sizes = [-(-4 * size // LINE) * LINE for size in sizes]
        if len(self._buffer) < sum(sizes) + LINE:
            self._buffer = np.empty(sum(sizes) + LINE, dtype=np.uint8)
        base = _aligned(self._buffer)
        return [base + sum(sizes[:i]) for i in range(len(sizes))]


def _packed(matrix: Matrix) -> PackedMatrix:
    return matrix if isinstance(matrix, PackedMatrix) else pack_fp32(matrix)


def _vectors(layer: LayerWeights) -> list[Tensor | None]:
    vectors = (
        layer.input_norm, layer.middle_norm, layer.qkv_bias, layer.out_bias, layer.q_norm,
        layer.k_norm,
    )  # fmt: skip
    return [None if vector is None else vector.float().contiguous() for vector in vectors]


def _aligned(buffer: NDArray[np.uint8]) -> int:
    return -(-buffer.ctypes.data // LINE) * LINE


@parallel_jit
def _run(
    step: Any, eps: float, layers: Any, matrices: Any, kvs: Any, slots: Any, folds: Any,
    share_at: int, attend_at: int,
) -> None:  # fmt: skip
    """All operations of all layers, the parts meeting after each.

    One loop over parts, not one an operation: Numba compiles each such loop with all it calls.
    """
    for layer in range(len(layers)):
        for operation in range(OPERATIONS):
            if _is_empty(operation, step, layers[layer], folds):
                continue
            for index in prange(step[NUM_PARTS]):
                part = np.int64(index)  # Numba's own index is unsigned
                if operation in (PROJECT_QKV, PROJECT_OUT, PROJECT_GATE_UP, PROJECT_DOWN):
                    _product(operation, part, step, eps, layers[layer], matrices[layer], share_at)
                elif operation == ATTEND:
                    _attention(part, step, kvs[layer], attend_at)
                else:
                    _operate(operation, part, step, eps, layers[layer], kvs[layer], slots, folds)


@jit
def _is_empty(operation: int, step: Any, layer: Any, folds: Any) -> bool:
    """Whether an operation has nothing to do, so that the parts need not meet for it."""
    few = step[ROWS] <= FEW_ROWS
    if operation == NORM_INPUT:
        return bool(few)
    if operation == FOLD:
        return bool(len(folds) == 0)
    return bool(operation == NORM_MIDDLE and few and not layer[OUT_BIAS])


@jit
def _operate(
    operation: int, part: int, step: Any, eps: float, layer: Any, kv: Any, slots: Any, folds: Any
) -> None:
    """One part's share of one of the short operations."""
    rows, parts, row_bytes = step[ROWS], step[NUM_PARTS], 4 * step[SIZE]
    first, end = rows * part // parts, rows * (part + 1) // parts
    if operation == NORM_INPUT:
        _norm(step, eps, layer[INPUT_NORM], step[NORMED], first, end)
    elif operation == ROTATE:
        qkv, qkv_bytes, turns = step[QKV_AT], step[QKV_BYTES], layer[ROTATES]
        if layer[QKV_BIAS]:
            _add_bias(qkv, qkv_bytes, layer[QKV_BIAS], first, end, qkv_bytes // 4)
        rotate_store(
            qkv, qkv_bytes, first, end, step[COS] * turns, step[SIN] * turns, layer[Q_NORM],
            layer[K_NORM], eps, step[NUM_HEADS], kv, slots,
        )  # fmt: skip
    elif operation == FOLD:
        group = step[NUM_HEADS] // kv[NUM_KV_HEADS]
        fold(step[ATTENDED], step[HEADS_BYTES], group, kv[DIM], folds, step[STATES], part, parts)
    elif operation == NORM_MIDDLE:
        if layer[OUT_BIAS]:
            _add_bias(step[HIDDEN], row_bytes, layer[OUT_BIAS], first, end, step[SIZE])
        if rows > FEW_ROWS:
            _norm(step, eps, layer[MIDDLE_NORM], step[NORMED], first, end)
    elif operation == GATE:
        gate_up_bytes = 8 * step[INTERMEDIATE]
        here = step[GATE_UP_AT] + first * gate_up_bytes
        swiglu_rows(here, gate_up_bytes, here, gate_up_bytes, end - first, step[INTERMEDIATE])


@jit
def _attention(part: int, step: Any, kv: Any, attend_at: int) -> None:
    """One part's work items."""
    group = step[NUM_HEADS] // kv[NUM_KV_HEADS]
    scratch = step[SCRATCH] + part * step[PART_BYTES]
    arguments = (
        step[QKV_AT], step[QKV_BYTES], step[ATTENDED], step[HEADS_BYTES], group, kv.ctypes.data,
        step[TABLES], step[NUM_REQUESTS], step[TABLE_WIDTH], step[ITEMS], step[NUM_ITEMS],
        step[BOUNDS], step[NUM_PARTS], step[STATES], scratch, part,
    )  # fmt: skip
    call(attend_at, arguments)


@jit
def _product(
    operation: int, part: int, step: Any, eps: float, layer: Any, matrices: Any, share_at: int
) -> None:
    """One part's share of one product."""
    x, x_stride, out, out_stride = step[NORMED], 4 * step[SIZE], step[HIDDEN], 4 * step[SIZE]
    which, adding = OUT, 1
    if operation == PROJECT_OUT:
        x, x_stride = step[ATTENDED], step[HEADS_BYTES]
    elif operation == PROJECT_DOWN:
        which = DOWN
        x, x_stride = step[GATE_UP_AT], 8 * step[INTERMEDIATE]
    else:
        adding = 0
        norm, which = layer[INPUT_NORM], QKV
        out, out_stride = step[QKV_AT], step[QKV_BYTES]
        if operation == PROJECT_GATE_UP:
            norm, which = layer[MIDDLE_NORM], GATE_UP
            out, out_stride = step[GATE_UP_AT], 8 * step[INTERMEDIATE]
        if step[ROWS] <= FEW_ROWS:
            x += part * FEW_ROWS * x_stride
            _norm(step, eps, norm, x, np.int64(0), step[ROWS])
    scratch = step[SCRATCH] + part * step[PART_BYTES]
    arguments = (
        x, x_stride, step[ROWS], matrices[which].ctypes.data, out, out_stride, part,
        step[NUM_PARTS], scratch, adding,
    )  # fmt: skip
    call(share_at, arguments)


@jit
def _norm(step: Any, eps: float, weight: int, out: int, first: int, end: int) -> None:
    """Rows first..end-1 of the residual, normalised, to the same rows of out."""
    stride = 4 * step[SIZE]
    start = first * stride
    rms_norm_rows(
        step[HIDDEN] + start, stride, weight, eps, out + start, stride, end - first, step[SIZE]
    )


@jit
def _add_bias(x: int, stride: int, bias: int, first: int, end: int, size: int) -> None:
    """Add bias [size] to the rows first..end-1 of x."""
    for row in range(first, end):
        for at in range(0, 4 * size, 4):
            there = x + row * stride + at
            store_scalar(there, load_scalar(there) + load_scalar(bias + at))
