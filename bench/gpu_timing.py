"""Times of the kernels beside torch's own, and what share of the device's ceilings they reach.

Knows no engine. G1 to G4 and G7 come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from radixchat.bench.gpu_attend import cascade, plain
from radixchat.bench.gpu_case import AttentionCase, AttentionTensors, attention_tensors
from radixchat.bench.gpu_ceilings import Ceilings
from radixchat.bench.gpu_check import EPS
from radixchat.bench.gpu_clock import Clock
from radixchat.bench.gpu_shapes import GpuShapes


@dataclass(frozen=True, slots=True)
class Timing:
    """One kernel, or torch's. num_bytes: that must be read or written; operations: of products."""

    name: str
    ms: float
    num_bytes: int
    operations: int = 0

    def of_bandwidth(self, ceilings: Ceilings) -> float:
        """Its bytes a second, as a share of the memory's."""
        return self.num_bytes / (self.ms * 1e-3) / ceilings.bandwidth

    def of_matrix_rate(self, ceilings: Ceilings) -> float:
        """Its operations a second, as a share of what a product reaches."""
        return self.operations / (self.ms * 1e-3) / ceilings.operations

    def line(self, ceilings: Ceilings) -> str:
        """For the table."""
        rate = f"{self.of_matrix_rate(ceilings):>8.1%}" if self.operations else " " * 8
        return f"  {self.name:<64}{self.ms:>9.4f} ms{self.of_bandwidth(ceilings):>8.1%}{rate}"


def time_attention(
    case: AttentionCase, shapes: GpuShapes, clock: Clock, *, peer: bool = True
) -> Iterator[Timing]:
    """The plain kernel, the cascade where a prefix is shared, and torch's on contiguous K and V."""
    tensors = attention_tensors(case, shapes.dtype, clock.device)
    width = 2 * tensors.query.numel() * shapes.dtype.itemsize  # queries and what comes out

    def timed(name: str, work: Callable[[], object], num_bytes: int) -> Timing:
        ms = clock.median_ms(work, shapes.repeats)
        return Timing(f"{case.name}: {name}", ms, num_bytes + width, case.operations)

    yield timed("ours", plain(tensors, case), case.kv_bytes)
    if case.shared:
        yield timed("ours, cascade", cascade(tensors, case), case.unique_bytes)
    if peer and (work := _torch_attention(tensors, case)) is not None:
        yield timed("torch, contiguous", work, case.kv_bytes)


def _torch_attention(tensors: AttentionTensors, case: AttentionCase) -> Callable[[], Tensor] | None:
    """scaled_dot_product_attention of the same numbers, None where it cannot say what is asked.

    It can where all requests have the same shape and K and V are no codes.
    """
    counts, lengths = set(case.counts), set(case.lengths)
    whole = counts == lengths
    if len(counts) > 1 or len(lengths) > 1 or not (whole or counts == {1}):
        return None
    if case.kv_dtype == torch.int8:
        return None
    count, length, shape = case.counts[0], case.lengths[0], case.shape
    table = tensors.step.page_tables[:, : -(-length // case.page_size)].long()
    keys, values = (
        cache[table].transpose(2, 3).flatten(1, 2)[:, :length].transpose(1, 2).contiguous()
        for cache in (tensors.kv.k, tensors.kv.v)
    )
    query = tensors.query.view(-1, count, shape.heads, shape.dim).transpose(1, 2).contiguous()
    return lambda: functional.scaled_dot_product_attention(
        query, keys, values, is_causal=whole and count > 1, enable_gqa=True
    )


def time_rows(shapes: GpuShapes, clock: Clock) -> Iterator[Timing]:
    """Norms, gate and products of a decode step's and a prefill's rows; exact ones and torch's."""
    from radixchat.kernels import triton_elementwise, triton_linear

    size, hidden, inner = shapes.dtype.itemsize, shapes.hidden, shapes.intermediate

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, device=clock.device).to(shapes.dtype)

    def timed(name: str, work: Callable[[], object], count: int, operations: int = 0) -> Timing:
        return Timing(name, clock.median_ms(work, shapes.repeats), count * size, operations)

    weight, matrix = random(hidden), random(2 * inner, hidden)
    for rows in shapes.rows:
        x, gates = random(rows, hidden), random(rows, 2 * inner)
        moved = rows * hidden + matrix.numel() + rows * 2 * inner
        operations = 2 * rows * matrix.numel()
        product = f"product, {rows} x {hidden} x {2 * inner}"
        yield timed(
            f"add_rms_norm, {rows} x {hidden}",
            partial(triton_elementwise.add_rms_norm, x, x, weight, EPS),
            4 * rows * hidden,
        )
        work = partial(triton_elementwise.swiglu, gates)
        yield timed(f"swiglu, {rows} x {inner}", work, 3 * rows * inner)
        work = partial(functional.linear, x, matrix)
        yield timed(f"{product}: torch", work, moved, operations)
        work = partial(triton_linear.linear, x, matrix)
        yield timed(f"{product}: exact", work, moved, operations)
