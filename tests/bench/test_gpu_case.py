"""Cases of attention have the bytes and operations they say, and poison where nobody may read."""

from __future__ import annotations

import pytest
import torch

from radixchat.bench.gpu_case import AttentionCase, HeadShape, attention_tensors, page_tables
from radixchat.bench.gpu_check import exact_attention, relative_error
from radixchat.kernels import reference

SMALL = HeadShape(4, 2, 16)


def case(
    counts: tuple[int, ...],
    lengths: tuple[int, ...],
    kv: torch.dtype = torch.float32,
    shared: int = 0,
) -> AttentionCase:
    return AttentionCase("a case", SMALL, counts, lengths, kv, shared=shared)


@pytest.mark.parametrize("kv", [torch.float32, torch.int8])
def test_the_reference_finds_no_poison_and_what_double_precision_finds(kv: torch.dtype) -> None:
    """Chunks, rows and a shared prefix; an attention that reads one slot too many is NaN."""
    chosen = case((1, 9, 1), (33, 41, 48), kv, shared=32)
    tensors = attention_tensors(chosen, torch.float32, "cpu")
    result = reference.paged_attention(tensors.query, tensors.kv, tensors.step)
    expected = exact_attention(tensors)
    assert relative_error(result, expected) < 1e-6
    assert relative_error(result + 1, expected) > 0.1
    last = tensors.step.page_tables[0, 2]
    poisoned = tensors.kv.k if tensors.kv.k_scale is None else tensors.kv.k_scale
    assert poisoned[last, :, 1:].isnan().all()
    assert not poisoned[last, :, :1].isnan().any()


def test_shared_positions_have_the_same_pages_and_others_their_own() -> None:
    """In random order, each page once."""
    tables = page_tables(case((1, 1, 1), (40, 32 + 17, 33), shared=32))
    assert [len(table) for table in tables] == [3, 4, 3]
    assert {tuple(table[:2]) for table in tables} == {tuple(tables[0][:2])}
    pages = [*tables[0][:2], *(page for table in tables for page in table[2:])]
    assert sorted(pages) == list(range(6))


def test_bytes_and_operations_are_counted_as_by_hand() -> None:
    """Of K and V, with scales; shared ones once; a chunk's triangle without what it masks."""
    decode = case((1, 1), (33, 40), shared=32)
    token = 2 * 2 * 16 * 4
    assert decode.kv_bytes == 73 * token
    assert decode.unique_bytes == 41 * token
    assert case((1,), (10,), torch.int8).kv_bytes == 10 * 2 * 2 * (16 + 2)
    assert case((3,), (5,)).operations == 4 * 4 * 16 * (3 + 4 + 5)


def test_rows_that_would_be_among_shared_positions_are_refused() -> None:
    """A request computes no position that it shares."""
    with pytest.raises(AssertionError):
        case((9,), (40,), shared=32)
