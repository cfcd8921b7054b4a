"""Whether this machine computes a row to the same bits whatever is computed with it.

Kernels have that property by construction, but it hangs on compilers and libraries that differ
from machine to machine: this measures it, on rows that are cheap enough for every start. Knows a
stack of one layer and a head as callables; no checkpoint and no request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerStack
from radixchat.kernels.ragged import ragged
from radixchat.kernels.reference import KEY_TILE

# The rows lie around the border between the second and the third tile of keys, at no multiple of
# anything. More than any block of rows that a kernel takes at once, and few enough: with all cuts
# 174 rows of one layer, the work of six tokens in a model of thirty.
FIRST = 2 * KEY_TILE - 7
NUM_ROWS = 43
CUTS = (
    (NUM_ROWS,),
    (1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5, NUM_ROWS - 18),
    (7, NUM_ROWS - 7),
    (17, NUM_ROWS - 17),
)
# What is computed beside them in the third and fourth: one row of another request, before theirs.
OTHER_LENGTH = 100
HEAD_ROWS = 5


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What all ways of computing begin with: hidden [rows, size], cos and sin, and full pages."""

    hidden: Tensor
    cos: Tensor
    sin: Tensor
    filling: list[Tensor]
    table: list[int]
    other_table: list[int]


def exact_here(
    stack: LayerStack,
    shape: LayerShape,
    hidden_size: int,
    kv_dtype: torch.dtype,
    page_size: int,
    head: Callable[[Tensor], Tensor],
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> str | None:
    """None if every row has the same bits however it is computed, else what differed, in words.

    stack: one layer of the model, as it will run, with its real weights. head: final rows
    [n, hidden_size] to logits [n, vocab]. dtype: of rows. On random rows and K and V.
    """
    pages, inputs = _inputs(shape, hidden_size, kv_dtype, page_size, device)
    inputs = replace(
        inputs,
        hidden=inputs.hidden.to(dtype),
        cos=inputs.cos.to(dtype),
        sin=inputs.sin.to(dtype),
    )
    whole, _, whole_kv = _compute(stack, inputs, pages, CUTS[0], beside=False)
    others: list[Tensor] = []
    for index, cuts in enumerate(CUTS[1:]):
        rows, beside, kv = _compute(stack, inputs, pages, cuts, beside=index > 0)
        others += beside
        how = f"computed {', '.join(map(str, cuts))} at a time"
        if (row := _first_difference(rows, whole)) is not None:
            return f"the layer's row {row} of {NUM_ROWS} has other bits when {how}"
        if not all(_same(a, b) for a, b in zip(kv, whole_kv, strict=True)):
            return f"the stored K or V has other bits when {how}"
    if any(not _same(other, others[0]) for other in others):
        return "a row of another request has other bits beside other rows"
    return _differing_head(head, whole[:HEAD_ROWS])


def _differing_head(head: Callable[[Tensor], Tensor], rows: Tensor) -> str | None:
    logits = head(rows)
    for start, end in ((0, 1), (2, HEAD_ROWS)):
        if not _same(head(rows[start:end]), logits[start:end]):
            return f"logits of {end - start} rows have other bits than those of {HEAD_ROWS}"
    return None


def _inputs(
    shape: LayerShape, hidden_size: int, kv_dtype: torch.dtype, page_size: int, device: str
) -> tuple[KVPages, _Inputs]:
    """Pages of one layer, and random inputs, the same on every call. The last row is the other's.

    What lies in the pages is finite and not zero: it is the context of the rows, and where
    nothing should be read, it shows.
    """
    own, other = (-(-n // page_size) for n in (FIRST + NUM_ROWS, OTHER_LENGTH))
    pages = empty_pages(
        1, own + other, shape.num_kv_heads, page_size, shape.head_dim, kv_dtype, device
    )
    generator = torch.Generator().manual_seed(1)
    filling = []
    for part in pages.parts():
        if part.dtype == torch.int8:
            values = torch.randint(-127, 128, part.shape, generator=generator)
        elif part.ndim == 4:  # scales
            values = torch.rand(part.shape, generator=generator) / 64
        else:
            values = torch.randn(part.shape, generator=generator)
        filling.append(values.to(device, part.dtype))
    hidden = torch.randn(NUM_ROWS + 1, hidden_size, generator=generator).to(device)
    angles = torch.rand(NUM_ROWS + 1, shape.head_dim // 2, generator=generator).to(device) * 6
    order = torch.randperm(own + other, generator=generator).tolist()
    inputs = _Inputs(hidden, angles.cos(), angles.sin(), filling, order[:own], order[own:])
    return pages, inputs


def _compute(
    stack: LayerStack, inputs: _Inputs, pages: KVPages, cuts: Sequence[int], *, beside: bool
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """All rows, so many at a time; the other request's row of each time; the rows' own pages."""
    for part, values in zip(pages.parts(), inputs.filling, strict=True):
        part.copy_(values)
    rows: list[Tensor] = []
    others: list[Tensor] = []
    start = 0
    for count in cuts:
        chosen = [*([NUM_ROWS] if beside else []), *range(start, start + count)]
        start += count
        counts, lengths, tables = [count], [FIRST + start], [inputs.table]
        if beside:
            counts, lengths = [1, *counts], [OTHER_LENGTH, *lengths]
            tables = [inputs.other_table, *tables]
        padding = -len(chosen) % stack.row_alignment
        page_size = pages.k.shape[3]
        step = ragged(
            counts, lengths, tables, page_size, len(chosen) + padding, str(pages.k.device)
        )
        picked = chosen + [0] * padding  # padding holds something, as in a batch
        computed = stack(inputs.hidden[picked], inputs.cos[picked], inputs.sin[picked], pages, step)
        rows.append(computed[len(chosen) - count : len(chosen)])
        others += [computed[:1].clone()] if beside else []
    return torch.cat(rows), others, [part[:, inputs.table] for part in pages.parts()]


def _first_difference(rows: Tensor, expected: Tensor) -> int | None:
    return next((i for i in range(len(rows)) if not _same(rows[i], expected[i])), None)


def _same(left: Tensor, right: Tensor) -> bool:
    """Equal to the bit: a NaN is itself, and zeros have a sign."""
    return torch.equal(
        left.contiguous().view(torch.uint8).cpu(), right.contiguous().view(torch.uint8).cpu()
    )
