"""Every Triton kernel against the reference in double precision, on the machine that will run it.

An error is the norm of the difference over the norm of what is right; a NaN never passes. Knows no
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from radixchat.bench.gpu_case import AttentionCase, AttentionTensors, attention_tensors
from radixchat.bench.gpu_shapes import GpuShapes
from radixchat.kernels import reference
from radixchat.kernels.kv_pages import KVLayer, empty_pages
from radixchat.kernels.layers import LayerShape

# Rounding of the operands; what a product of thousands of numbers adds to it is less.
LIMITS: Mapping[torch.dtype, float] = MappingProxyType(
    {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
)
EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison. error: relative, of the norms; 0 where bits were compared and are equal."""

    name: str
    error: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is in its limit; NaN is not."""
        return self.error <= self.limit

    def line(self) -> str:
        """For the table."""
        return f"  {self.name:<72}{self.error:>10.1e}  {'ok' if self.passed else 'WRONG'}"


def relative_error(result: Tensor, expected: Tensor) -> float:
    """‖result - expected‖ / ‖expected‖ in double precision; both 0 is no error."""
    difference = (result.double() - expected.double()).norm()
    size = expected.double().norm()
    return float(difference if size == 0 else difference / size)


def exact_attention(tensors: AttentionTensors) -> Tensor:
    """Causal attention in double precision, request by request; [rows, heads, dim]."""
    query, kv, step = tensors.query, tensors.kv, tensors.step
    output = torch.zeros(query.shape, dtype=torch.float64, device=query.device)
    for index in range(step.num_requests):
        start, end = int(step.starts[index]), int(step.starts[index + 1])
        length = int(step.lengths[index])
        keys, values = (_positions(kv, part, step.page_tables[index], length) for part in range(2))
        group = query.shape[1] // keys.shape[1]
        keys, values = (t.repeat_interleave(group, 1) for t in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query[start:end].double(), keys)
        scores *= query.shape[2] ** -0.5
        first = length - (end - start)
        rows = torch.arange(first, length, device=query.device)
        behind = torch.arange(length, device=query.device)[None] > rows[:, None]
        weights = scores.masked_fill(behind[None], -torch.inf).softmax(-1)
        output[start:end] = torch.einsum("hqk,khd->qhd", weights, values)
    return output


def _positions(kv: KVLayer, part: int, table: Tensor, length: int) -> Tensor:
    """K (0) or V (1) of a request's positions, fp64 [length, kv_heads, dim]."""
    cache, scales = ((kv.k, kv.k_scale), (kv.v, kv.v_scale))[part]
    positions = torch.arange(length, device=table.device)
    pages, offsets = table[positions // kv.page_size].long(), positions % kv.page_size
    numbers = cache[pages, :, offsets].double()
    return numbers if scales is None else numbers * scales[pages, :, offsets].double()[..., None]


def attention_checks(
    cases: tuple[AttentionCase, ...],
    device: str,
    dtype: torch.dtype,
    attend: Callable[[AttentionTensors, AttentionCase], Tensor],
) -> Iterator[Check]:
    """Each case; the queries have the dtype of K and V, of INT8 ones `dtype`."""
    for seed, case in enumerate(cases):
        wanted = dtype if case.kv_dtype == torch.int8 else case.kv_dtype
        tensors = attention_tensors(case, wanted, device, seed)
        error = relative_error(attend(tensors, case), exact_attention(tensors))
        yield Check(f"attention, {case.name}", error, LIMITS[wanted])


def bits_check(
    name: str, found: Sequence[Tensor], expected: Sequence[Tensor], device: str
) -> Check:
    """Whether the tensors are equal to the bit.

    On the CPU whether they are close: the interpreter's products are numpy's, in which a row's
    bits depend on its place in a tile.
    """
    pairs = list(zip(found, expected, strict=True))
    if device == "cpu":
        error = max(relative_error(a, b) for a, b in pairs)
        return Check(f"{name} (nearly)", error, LIMITS[torch.bfloat16])
    same = all(torch.equal(a, b) for a, b in pairs)
    return Check(name, 0.0 if same else 1.0, 0.0)


def row_checks(shapes: GpuShapes, device: str) -> Iterator[Check]:
    """Norms, the gate, the product, and what comes between qkv and attention."""
    from radixchat.kernels import triton_elementwise, triton_linear

    generator = torch.Generator(device).manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device).to(shapes.dtype)

    limit, hidden = LIMITS[shapes.dtype], shapes.hidden
    for rows in (1, 3, *shapes.rows):
        x, residual, weight = random(rows, hidden), random(rows, hidden), random(hidden)
        expected = reference.rms_norm(x.double(), weight.double(), EPS)
        result = triton_elementwise.rms_norm(x, weight, EPS)
        yield Check(f"rms_norm, {rows} rows", relative_error(result, expected), limit)
        normed, total = triton_elementwise.add_rms_norm(x, residual, weight, EPS)
        summed = x.double() + residual.double()
        expected = reference.rms_norm(summed, weight.double(), EPS)
        error = max(relative_error(normed, expected), relative_error(total, summed))
        yield Check(f"add_rms_norm, {rows} rows", error, limit)
        gates = random(rows, 2 * shapes.intermediate)
        expected = reference.swiglu(gates.double())
        result = triton_elementwise.swiglu(gates)
        yield Check(f"swiglu, {rows} rows", relative_error(result, expected), limit)
        matrix = random(hidden, hidden)
        result = triton_linear.linear(x, matrix)
        error = relative_error(result, x.double() @ matrix.double().T)
        yield Check(f"linear, exact, {rows} rows", error, limit)
        alone = triton_linear.linear(x[-1:].contiguous(), matrix)
        name = f"linear, exact, a row alone and among {rows}"
        yield bits_check(name, [alone], [result[-1:]], device)


def store_checks(shapes: GpuShapes, device: str) -> Iterator[Check]:
    """Rotation and store into pages of both formats, with and without norms, to the bit of the
    codes; and copies of slots."""
    from radixchat.kernels import triton_kv_store

    generator = torch.Generator(device).manual_seed(1)
    shape = LayerShape(4, 2, 64, EPS)
    rows, dim = 37, shape.head_dim
    limit = LIMITS[shapes.dtype]

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device).to(shapes.dtype)

    slots = torch.randperm(8 * 16, generator=generator, device=device)[:rows]
    slots[5] = -1
    for kv_dtype in (shapes.dtype, torch.int8):
        for norms in (None, (random(dim), random(dim))):
            qkv = random(rows, (shape.num_heads + 2 * shape.num_kv_heads) * dim)
            angles = torch.rand(rows, dim // 2, generator=generator, device=device) * 7
            rotation = angles.cos().to(shapes.dtype), angles.sin().to(shapes.dtype)
            kv, expected_kv = (
                empty_pages(1, 8, shape.num_kv_heads, 16, dim, kv_dtype, device).layer(0)
                for _ in range(2)
            )
            query = triton_kv_store.rotate_store(qkv, rotation, norms, kv, slots, shape)
            expected = _stored(qkv, rotation, norms, expected_kv, slots, shape)
            errors = [relative_error(query, expected)]
            for part in range(2):
                tables = torch.arange(8, device=device)
                found, right = (_positions(k, part, tables, 128) for k in (kv, expected_kv))
                errors.append(relative_error(found, right))
            kind = "INT8" if kv_dtype == torch.int8 else "as computed"
            name = f"rotate and store, {kind}{', norms' if norms else ''}"
            # A code of INT8 may differ where the number before it was rounded otherwise.
            yield Check(name, max(errors), max(limit, 1e-2 * (kv_dtype == torch.int8)))
    pages = empty_pages(3, 8, 2, 16, dim, shapes.dtype, device)
    for cache in pages.parts():
        cache.copy_(torch.randn(cache.shape, generator=generator, device=device))
    copies = [(1, 4, 16), (2, 5, 3), (1, 6, 9)]
    right_pages = [cache.clone() for cache in pages.parts()]
    for cache in right_pages:
        for source, destination, count in copies:
            cache[:, destination, :, :count] = cache[:, source, :, :count]
    triton_kv_store.copy_slots(pages, copies)
    same = all(map(torch.equal, pages.parts(), right_pages))
    yield Check("copies of slots", 0.0 if same else 1.0, 0.0)


def _stored(
    qkv: Tensor,
    rotation: tuple[Tensor, Tensor],
    norms: tuple[Tensor, Tensor] | None,
    kv: KVLayer,
    slots: Tensor,
    shape: LayerShape,
) -> Tensor:
    heads, kv_heads = shape.num_heads, shape.num_kv_heads
    by_head = qkv.view(len(qkv), heads + 2 * kv_heads, shape.head_dim)
    query, key = by_head[:, :heads], by_head[:, heads : heads + kv_heads]
    value = by_head[:, heads + kv_heads :]
    if norms is not None:
        query = reference.rms_norm(query, norms[0], shape.rms_eps)
        key = reference.rms_norm(key, norms[1], shape.rms_eps)
    wide = [t.float() for t in rotation]
    query, key = (reference.rotate(t.float(), *wide).to(qkv.dtype) for t in (query, key))
    reference.store_kv(key, value, kv, slots)
    return query
