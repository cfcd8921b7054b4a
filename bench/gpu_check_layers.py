"""Whole layers on the machine that will run them: right, and in exact mode the same bits every way.

The ways: a prompt at once, cut, token by token, and by the plans that decode graphs replay; with
INT8 KV too. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from radixchat.bench.gpu_check import EPS, LIMITS, Check, bits_check, relative_error
from radixchat.kernels.gpu_layers import GpuLayers, PlannedLayers
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights, TorchLayers
from radixchat.kernels.packed_matrix import Matrix
from radixchat.kernels.ragged import ragged

_PAGE = 16
# An error of operands goes through a handful of products and two layers.
_DEPTH = 4
_TABLES = ((3, 1, 0), (4, 2))
_PAGES = 6


class _Model:
    """Two layers of random weights, and the rows of two requests."""

    def __init__(self, shape: LayerShape, lengths: Sequence[int], dtype: torch.dtype, device: str):
        self.shape, self.lengths, self.dtype, self.device = shape, lengths, dtype, device
        generator = torch.Generator(device).manual_seed(5)
        heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        hidden = heads * dim

        def random(*size: int) -> Tensor:
            numbers = torch.randn(size, generator=generator, device=device)
            scale: float = size[-1] ** -0.5
            return (numbers * scale).to(dtype)

        self.layers = [
            LayerWeights(
                input_norm=1 + random(hidden),
                qkv=random((heads + 2 * kv_heads) * dim, hidden),
                out=random(hidden, hidden),
                middle_norm=1 + random(hidden),
                gate_up=random(4 * hidden, hidden),
                down=random(hidden, 2 * hidden),
            )
            for _ in range(2)
        ]
        self.hidden = [random(n, hidden) * hidden**0.5 for n in lengths]
        angles = torch.rand(max(lengths), dim // 2, generator=generator, device=device) * 7
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def pages(self, kv_dtype: torch.dtype) -> KVPages:
        """Empty ones, of two layers."""
        shape = self.shape
        return empty_pages(
            2, _PAGES, shape.num_kv_heads, _PAGE, shape.head_dim, kv_dtype, self.device
        )

    def run(
        self, stack: LayerStack, pages: KVPages, spans: Sequence[tuple[int, int]]
    ) -> list[Tensor]:
        """Positions spans[i] of request i, in one step; what comes out of each request's rows."""
        counts = [end - start for start, end in spans]
        rows = sum(counts)
        padding = -rows % stack.row_alignment
        step = ragged(
            counts, [end for _, end in spans], _TABLES, _PAGE, rows + padding, self.device
        )
        parts = [h[start:end] for h, (start, end) in zip(self.hidden, spans, strict=True)]
        hidden = torch.cat([*parts, parts[0].new_zeros(padding, parts[0].shape[1])])
        positions = [p for start, end in spans for p in range(start, end)] + [0] * padding
        if isinstance(stack, PlannedLayers):
            stack.plan(step, rows)
        out = stack(hidden, self.cos[positions], self.sin[positions], pages, step)
        return list(out[:rows].split_with_sizes(counts))

    def wide(self) -> _Model:
        """The same numbers in double precision."""
        copy = _Model(self.shape, self.lengths, self.dtype, self.device)
        copy.layers = [
            LayerWeights(
                input_norm=layer.input_norm.double(),
                qkv=_double(layer.qkv),
                out=_double(layer.out),
                middle_norm=layer.middle_norm.double(),
                gate_up=_double(layer.gate_up),
                down=_double(layer.down),
            )
            for layer in self.layers
        ]
        copy.hidden = [h.double() for h in self.hidden]
        copy.cos, copy.sin = self.cos.double(), self.sin.double()
        return copy


def _double(matrix: Matrix) -> Tensor:
    assert isinstance(matrix, Tensor)
    return matrix.double()


def layer_checks(
    dtype: torch.dtype, device: str, shape: LayerShape, lengths: tuple[int, int]
) -> Iterator[Check]:
    """lengths: of two requests, at most 48 and 32."""
    model = _Model(shape, lengths, dtype, device)
    whole = [(0, n) for n in lengths]
    for kv_dtype in (dtype, torch.int8):
        kind = "INT8 KV" if kv_dtype == torch.int8 else "KV as computed"
        wide = model.wide()
        right_pages = wide.pages(torch.int8 if kv_dtype == torch.int8 else torch.float64)
        right = wide.run(TorchLayers(shape, wide.layers), right_pages, whole)
        for exact in (False, True):
            stack = GpuLayers(shape, model.layers, exact=exact)
            pages = model.pages(kv_dtype)
            found = model.run(stack, pages, whole)
            # A code of INT8 is one of 254; another one is as far from what is right as rounding.
            limit = _DEPTH * (LIMITS[dtype] + 1e-2 * (kv_dtype == torch.int8))
            mode = ", exact" if exact else ""
            name = f"layers{mode}, {kind}"
            yield Check(name, relative_error(torch.cat(found), torch.cat(right)), limit)
            decoded = model.run(
                stack.planned(pages, 4, cascade=False), pages, [(n - 1, n) for n in lengths]
            )
            last = [rows[-1:] for rows in found]
            yield Check(
                f"{name}: planned", relative_error(torch.cat(decoded), torch.cat(last)), limit
            )
            if exact:
                yield _same_bits(model, stack, kv_dtype, found, pages, name)


def _same_bits(
    model: _Model,
    stack: GpuLayers,
    kv_dtype: torch.dtype,
    whole: list[Tensor],
    stored: KVPages,
    name: str,
) -> Check:
    """A prompt's head at once, its middle in one chunk beside another's, its tail by token."""
    pages = model.pages(kv_dtype)
    planned = stack.planned(pages, 4, cascade=False)
    long, short = model.lengths
    cut = min(long, short) // 2
    parts = [model.run(stack, pages, [(0, cut), (0, 1)])]
    parts.append(model.run(stack, pages, [(cut, long - short + cut + 1), (1, cut + 1)]))
    for i in range(cut + 1, short):
        parts.append(
            model.run(planned, pages, [(long - short + i, long - short + i + 1), (i, i + 1)])
        )
    joined = [torch.cat([part[request] for part in parts]) for request in range(2)]
    return bits_check(
        f"{name}: the same bits however it is cut",
        [*joined, *pages.parts()],
        [*whole, *stored.parts()],
        model.device,
    )


def layer_shape(head_dim: int) -> LayerShape:
    """Of the checks: a few heads in groups."""
    return LayerShape(4, 2, head_dim, EPS)
