"""What a decode step reads arrives as it was given, in a buffer that never moves."""

from __future__ import annotations

import numpy as np

from radixchat.engine.decode_inputs import DecodeInputs, InputQueue, RowInputs
from radixchat.engine.device_queue import CpuQueue

FIELDS = RowInputs.__slots__


def random_rows(count: int, seed: int) -> RowInputs:
    rng = np.random.default_rng(seed)
    rows = RowInputs.empty(count)
    for name in FIELDS:
        values = getattr(rows, name)
        values[:] = rng.integers(0, 2**31 - 1, count).astype(values.dtype)
    rows.seeds[:] = rng.integers(2**40, 2**63 - 1, count)
    return rows


def test_every_field_arrives_and_the_rows_behind_belong_to_nobody() -> None:
    """Six steps through three host buffers, of changing sizes; the addresses stay."""
    queue = InputQueue(8, 5, CpuQueue())
    addresses = [getattr(queue.inputs, name).data_ptr() for name in DecodeInputs.__slots__]
    empty = RowInputs.empty(8)
    for step, (count, size) in enumerate([(8, 8), (3, 4), (1, 1), (2, 2), (5, 8), (8, 8)]):
        rows = random_rows(count, step)
        tables = np.random.default_rng(step).integers(0, 99, (count, 5)).astype(np.int32)
        queue.send(size, rows, tables)
        for name in FIELDS:
            arrived = getattr(queue.inputs, name).numpy()
            assert (arrived[:count] == getattr(rows, name)).all(), name
            assert (arrived[count:size] == getattr(empty, name)[count:size]).all(), name
        assert (queue.inputs.tables.numpy()[:count] == tables).all()
    assert addresses == [getattr(queue.inputs, name).data_ptr() for name in DecodeInputs.__slots__]


def test_at_first_there_are_only_rows_of_nobody() -> None:
    """A graph that is captured before any step writes no slot and reads no key."""
    inputs = InputQueue(4, 2, CpuQueue()).inputs
    assert inputs.slots.tolist() == [-1] * 4
    assert inputs.lengths.tolist() == [0] * 4
    assert inputs.sources.tolist() == [-1] * 4
