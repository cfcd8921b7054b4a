"""Block-hash traces: ids become numbers, the block's size is found, other lengths are refused."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.bench.trace_blocks import BlockReader, deduce_block_tokens
from radixchat.bench.trace_item import TraceError
from radixchat.tests.bench.traces import trace_lines


def prompt(length: int, *hashes: object, **more: object) -> dict[str, Any]:
    return {"input_length": length, "hash_ids": list(hashes)} | more


def test_equal_hashes_are_equal_units() -> None:
    """Whatever they are: large and negative, or text."""
    reader = BlockReader(16, None)
    for a, b, c, d, e in ((2**64 - 1, -5, 7, 1, 0), ("ab", "", "7", "1", "ä")):
        _read_five(reader, a, b, c, d, e)


def _read_five(reader: BlockReader, a: object, b: object, c: object, d: object, e: object) -> None:
    lines = trace_lines(prompt(40, a, b, c), prompt(33, a, c, d), prompt(1, e))
    first, second, third = reader.read(lines)
    assert [list(r.prompt) for r in (first, second, third)] == [[0, 1, 2], [0, 2, 3], [4]]
    assert [r.num_tokens for r in (first, second, third)] == [40, 33, 1]
    assert first.prompt.dtype == "int32"
    assert (len(first.output), first.conversation, first.turn) == (0, None, 0)


def test_timestamps_are_milliseconds_since_the_first() -> None:
    """Without them a request's time is its number."""
    reader = BlockReader(16, None)
    timed = trace_lines(prompt(1, 1, timestamp=5000), prompt(1, 1, timestamp=6250))
    assert [r.time for r in reader.read(timed)] == [0.0, 1.25]
    untimed = trace_lines(prompt(1, 1), prompt(1, 1), prompt(1, 1))
    assert [r.time for r in reader.read(untimed)] == [0.0, 1.0, 2.0]


def test_a_conversation_and_its_turn_are_taken_where_given() -> None:
    """Some collections of traces have them."""
    (request,) = BlockReader(16, None).read(trace_lines(prompt(1, 1, session_id=7, turn=3)))
    assert (request.conversation, request.turn) == ("7", 3)


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        ([prompt(6758, *range(14))], 512),  # 483 to 519
        ([prompt(100, 1)], 512),  # everything from 100 on
        ([prompt(33, 1, 2, 3)], 16),  # 11 to 16
        ([prompt(50, 1), prompt(120, 1, 2)], 64),  # 60 to 119
        ([prompt(100, 1, 2), prompt(101, 1, 2, 3)], 50),  # no power of two, but one number
    ],
)
def test_the_size_of_a_block_is_found(lines: list[dict[str, Any]], size: int) -> None:
    """From the lines together."""
    assert deduce_block_tokens(trace_lines(*lines)) == size


@pytest.mark.parametrize(
    ("lines", "number", "reason"),
    [
        ([prompt(600, 1)], 1, "blocks of 600 to 2147483647 tokens fit .* field block_size"),
        ([prompt(30, 1), prompt(100, 1, 2, 3)], 2, "blocks of 34 to 49 tokens fit"),
        ([prompt(33, 1, 2, 3), prompt(99, 1)], 2, "99 tokens cannot be 1 blocks .* of 11 to 16"),
        ([prompt(2, 1, 2, 3, 4)], 1, "2 tokens cannot be 4 blocks of equal size"),
        ([prompt(2)], 1, "2 tokens cannot be 0 blocks"),
    ],
)
def test_a_size_that_cannot_be_found_is_told(
    lines: list[dict[str, Any]], number: int, reason: str
) -> None:
    """With the line at which it is clear, and what would do."""
    with pytest.raises(TraceError, match=rf"^t.jsonl:{number}: {reason}"):
        deduce_block_tokens(trace_lines(*lines))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (prompt(0, 1), "input_length is 0; a whole number, 1 to"),
        (prompt(-3, 1), "input_length is -3"),
        ({"hash_ids": [1]}, "input_length is missing"),
        (prompt(True, 1), "input_length is true"),
        ({"input_length": 1.0, "hash_ids": [1]}, "input_length is 1.0"),
        (prompt(10**30, 1), "input_length is 1000"),
        ({"input_length": 3}, "hash_ids is missing; a list"),
        ({"input_length": 3, "hash_ids": "abc"}, 'hash_ids is "abc"; a list'),
        (prompt(17, 1), "input_length 17 is 2 blocks of 16 tokens, but hash_ids has 1"),
        (prompt(3, 1.5), "hash_ids has 1.5; a whole number of 64 bits or text"),
        (prompt(3, True), "hash_ids has true"),
        (prompt(3, "1"), 'hash_ids has "1", but the ids before are whole numbers'),
        (prompt(17, 2, "2"), 'hash_ids has "2", but the ids before are whole numbers'),
        (prompt(3, None), "hash_ids has missing"),
        (prompt(3, 2**64), "hash_ids has 18446744073709551616"),
        (prompt(3, 1, timestamp="noon"), 'timestamp is "noon"; 1/1000 seconds'),
        (prompt(3, 1, turn=-1), "turn is -1"),
    ],
)
def test_a_damaged_line_is_refused(line: dict[str, Any], reason: str) -> None:
    """With its number and the value."""
    with pytest.raises(TraceError, match=rf"^t.jsonl:2: {reason}"):
        list(BlockReader(16, None).read(trace_lines(prompt(3, 1), line)))
