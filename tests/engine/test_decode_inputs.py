"""What a decode step reads arrives as it was given, in a buffer that never moves."""

from __future__ import annotations

import numpy as np

from radixchat.engine.decode_inputs import DecodeInputs, InputQueue, RowInputs
from radixchat.engine.device_queue import CpuQueue

SIZES = (1, 2, 4, 8)


def random_rows(count: int, seed: int) -> RowInputs:
    rng = np.random.default_rng(seed)
    rows = RowInputs.empty(count)
    for name in RowInputs.__slots__:
        values = getattr(rows, name)
        values[...] = rng.integers(0, 2**31 - 1, values.shape).astype(values.dtype)
    rows.draw_counts[0] = rng.integers(2**40, 2**63 - 1, count)
    return rows


def addresses(queue: InputQueue) -> list[int]:
    return [
        getattr(queue.inputs(size), name).data_ptr()
        for size in SIZES
        for name in DecodeInputs.__slots__
    ]


def test_every_field_arrives_and_the_rows_behind_belong_to_nobody() -> None:
    """Six steps through three host buffers, of changing sizes; the addresses stay."""
    queue = InputQueue(SIZES, 5, CpuQueue())
    before = addresses(queue)
    for step, (count, size) in enumerate([(8, 8), (3, 4), (1, 1), (2, 2), (5, 8), (0, 8)]):
        rows, empty = random_rows(count, step), RowInputs.empty(size - count)
        tables = np.random.default_rng(step).integers(0, 99, (count, 5)).astype(np.int32)
        queue.send(size, rows, tables)
        inputs = queue.inputs(size)
        for name in RowInputs.__slots__:
            arrived = getattr(inputs, name).numpy()
            assert arrived.shape[-1] == size
            assert (arrived[..., :count] == getattr(rows, name)).all(), name
            assert (arrived[..., count:] == getattr(empty, name)).all(), name
            assert getattr(inputs, name).is_contiguous()
        assert (inputs.tables.numpy()[:count] == tables).all()
    assert addresses(queue) == before


def test_a_row_of_nobody_writes_no_slot_and_reads_no_key() -> None:
    """And takes no token of another."""
    empty = RowInputs.empty(4)
    assert empty.slots.tolist() == [-1] * 4
    assert empty.lengths.tolist() == [0] * 4
    assert empty.sources.tolist() == [-1] * 4
