"""`PageBytes`: a page as a row of bytes and back, bit for bit, and nothing of its neighbours."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from radixchat.engine.tiers.page_bytes import PageBytes
from radixchat.kernels.kv_pages import KVPages, empty_pages

LAYERS, PAGES, HEADS, SIZE, DIM = 3, 5, 2, 4, 8


def filled(dtype: torch.dtype, seed: int = 0) -> KVPages:
    """Pages of random bits, those that are no number included."""
    pages = empty_pages(LAYERS, PAGES, HEADS, SIZE, DIM, dtype, "cpu")
    generator = torch.Generator().manual_seed(seed)
    for part in pages.parts():
        lies = part if part.is_contiguous() else part.transpose(-1, -2)
        whole = lies.reshape(-1).view(torch.uint8)
        assert whole.data_ptr() == lies.data_ptr(), "a view"
        whole.copy_(torch.randint(0, 256, whole.shape, dtype=torch.uint8, generator=generator))
    return pages


def bits(pages: KVPages) -> list[torch.Tensor]:
    """All of them, [layers, pages, bytes]."""
    return [part.contiguous().flatten(2).view(torch.uint8).clone() for part in pages.parts()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
def test_a_page_goes_away_and_comes_back(dtype: torch.dtype) -> None:
    """Into another page of another pool; the pages around it keep their bits."""
    source, target = filled(dtype, 1), filled(dtype, 2)
    here, there = PageBytes(source), PageBytes(target)
    before = bits(target)
    row = np.zeros(here.num_bytes, np.uint8)
    here.read(3, row)
    there.write(1, row)
    for ours, theirs, old in zip(bits(source), bits(target), before, strict=True):
        assert torch.equal(theirs[:, 1], ours[:, 3])
        others = [0, 2, 3, 4]
        assert torch.equal(theirs[:, others], old[:, others])
    again = np.zeros_like(row)
    there.read(1, again)
    assert again.tobytes() == row.tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_a_page_has_the_bytes_that_the_pool_has_of_it(dtype: torch.dtype) -> None:
    """All parts, scales too, and not one byte twice."""
    pages = filled(dtype)
    assert len(pages.parts()) == (4 if dtype == torch.int8 else 2)
    page_bytes = PageBytes(pages)
    assert page_bytes.num_bytes * PAGES == pages.num_bytes
    rows = np.zeros((PAGES, page_bytes.num_bytes), np.uint8)
    for page, row in enumerate(rows):
        page_bytes.read(page, row)
    whole = np.sort(rows.reshape(-1))
    parts = np.sort(np.concatenate([part.numpy().reshape(-1) for part in bits(pages)]))
    assert np.array_equal(whole, parts)


def test_every_byte_of_a_row_shows() -> None:
    """Each that is changed changes one byte of the page, and none of another."""
    pages = filled(torch.float16)
    page_bytes = PageBytes(pages)
    row = np.zeros(page_bytes.num_bytes, np.uint8)
    page_bytes.read(2, row)
    before = bits(pages)
    for place in range(0, page_bytes.num_bytes, 37):
        changed = row.copy()
        changed[place] ^= 0xFF
        page_bytes.write(2, changed)
        after = bits(pages)
        differing = [int((a != b).sum()) for a, b in zip(before, after, strict=True)]
        assert sum(differing) == 1
    page_bytes.write(2, row)
    assert all(torch.equal(a, b) for a, b in zip(before, bits(pages), strict=True))


def test_a_row_of_another_length_is_no_page() -> None:
    """It would be another model's."""
    page_bytes = PageBytes(filled(torch.float32))
    for length in (page_bytes.num_bytes - 1, page_bytes.num_bytes + 1):
        with pytest.raises(AssertionError, match="are no page"):
            page_bytes.write(0, np.zeros(length, np.uint8))


def test_layers_lie_one_after_the_other() -> None:
    """Page-first: K of all layers, then V, so that one read has all of a page."""
    pages = filled(torch.float32)
    page_bytes = PageBytes(pages)
    row = np.zeros(page_bytes.num_bytes, np.uint8)
    page_bytes.read(4, row)
    pieces = np.split(row, 2 * LAYERS)
    for piece, (part, layer) in zip(
        pieces, [(part, layer) for part in pages.parts() for layer in range(LAYERS)], strict=True
    ):
        page = part[layer, 4]
        lies = page if page.is_contiguous() else page.transpose(-1, -2)
        assert piece.tobytes() == lies.numpy().tobytes()
    assert not any(a.tobytes() == b.tobytes() for a, b in pairwise(pieces))
