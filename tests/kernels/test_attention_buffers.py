"""Work of steps of any shape stays in its tensors as long as it has room there."""

from __future__ import annotations

from dataclasses import replace

import torch

from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, GrowingWork
from radixchat.kernels.ragged import Ragged, ragged

SHAPE = AttentionShape(4, 2, 16, 16, torch.float32, torch.float32)


def a_step(*counts: int) -> Ragged:
    """A step of prompts that begin."""
    tables = [[2 * i, 2 * i + 1] for i in range(len(counts))]
    return ragged(counts, counts, tables, 16, sum(counts), "cpu")


def filled(growing: GrowingWork, *counts: int, shape: AttentionShape = SHAPE) -> AttentionWork:
    return growing.fill(shape, "cpu", a_step(*counts), sum(counts))


def test_work_grows_by_doubling_and_never_shrinks() -> None:
    """In rows and in requests; each step's list of rows is its own."""
    growing = GrowingWork()
    first = filled(growing, 5)
    assert filled(growing, 3) is first
    second = filled(growing, 6)
    assert second is not first
    for rows in (10, 1, 10):
        assert filled(growing, rows) is second
        assert second.rows[:rows].tolist() == list(range(rows))
    third = filled(growing, 1, 1, 1)
    assert third is not second, "three requests, where there was one"
    assert filled(growing, 20) is third


def test_pages_of_another_kind_get_work_of_their_own() -> None:
    """Other tiles read INT8, in a work that is as exact as the first."""
    growing = GrowingWork(exact=True)
    first = filled(growing, 5)
    second = filled(growing, 5, shape=replace(SHAPE, kv_dtype=torch.int8))
    assert second is not first
    assert second.shape.kv_dtype == torch.int8
    assert first.exact
    assert second.exact
