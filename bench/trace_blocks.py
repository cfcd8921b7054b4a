"""Block-hash traces: one line a request, its prompt as the hashes of its blocks (Mooncake's form).

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}

    input_length   tokens of the prompt, 1 or more
    hash_ids       one id per block, whole numbers of 64 bits or text, all of a trace the same;
                   two prompts share a block where their ids are equal
    timestamp      milliseconds, or a date; on every line or on none
    conversation, turn   may be given, as in a token trace; Mooncake's own traces have neither
    output_length  not used: the trace does not tell what the answer's blocks were
    block_size     tokens of a block, said by the first line; else deduced from the lengths

Owns that form and the size of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.trace_clock import TraceClock
from radixchat.bench.trace_item import TraceRequest
from radixchat.bench.trace_line import MAX_INT32, TraceLine, shown

USUAL_BLOCK = 512  # of the published traces
LINES_TO_DEDUCE = 1000

_NO_OUTPUT = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Lines to requests, whose units are blocks of `unit_tokens` tokens."""

    unit_tokens: int
    namespace_by: str | None

    def read(self, lines: Iterable[TraceLine]) -> Iterator[TraceRequest]:
        """The requests; raises TraceError at a damaged line.

        Ids become 0, 1, 2, … in order of appearance; their table is the only thing that grows
        with the trace (about 100 bytes for each different block).
        """
        numbers: dict[object, int] = {}
        clock = TraceClock()
        for index, line in enumerate(lines):
            length, prompt = self._prompt(line, numbers)
            elapsed = clock.elapsed(line, line.seconds(("timestamp", "time"), per_second=1000))
            namespace = line.namespace(self.namespace_by)
            yield TraceRequest(
                prompt=prompt,
                num_tokens=length,
                output=_NO_OUTPUT,
                time=float(index) if elapsed is None else elapsed,
                namespace=namespace,
                conversation=line.conversation(namespace),
                turn=line.optional_integer("turn", 0) or 0,
            )

    def _prompt(self, line: TraceLine, numbers: dict[object, int]) -> tuple[int, NDArray[np.int32]]:
        length, hashes = _lengths(line)
        needed = -(-length // self.unit_tokens)
        if len(hashes) != needed:
            raise line.error(
                f"input_length {length} is {needed} blocks of {self.unit_tokens} tokens, but "
                f"hash_ids has {len(hashes)}; is it another block size, or cut off?"
            )
        # The table's first id tells what all of them are: 1 and "1" would be two blocks.
        kind = type(next(iter(numbers or hashes), None))
        for value in hashes:
            whole = type(value) is int and -(2**63) <= value < 2**64
            if not whole and not isinstance(value, str):
                raise line.error(
                    f"hash_ids has {shown(value)}; a whole number of 64 bits or text is needed"
                )
            if type(value) is not kind:
                before = "whole numbers" if kind is int else "text"
                raise line.error(f"hash_ids has {shown(value)}, but the ids before are {before}")
        ids = (numbers.setdefault(value, len(numbers)) for value in hashes)
        return length, np.fromiter(ids, np.int32, len(hashes))


def deduce_block_tokens(lines: Iterable[TraceLine]) -> int:
    """The size of the blocks, in tokens, from how many each prompt has.

    Looks at the first 1,000 lines. Of the sizes that fit them all it is 512, the published
    traces' own, or else the only power of two. Raises TraceError where no size fits, or several
    and nothing speaks for one.
    """
    low, high = 1, MAX_INT32
    line: TraceLine | None = None
    for line in islice(lines, LINES_TO_DEDUCE):
        length, hashes = _lengths(line)
        blocks = len(hashes)
        new_low = max(low, -(-length // max(1, blocks)))
        new_high = min(high, (length - 1) // (blocks - 1)) if blocks > 1 else high
        if not hashes or new_low > new_high:
            before = f"; the lines before have blocks of {low} to {high}" if low > 1 else ""
            raise line.error(f"{length} tokens cannot be {blocks} blocks of equal size{before}")
        low, high = new_low, new_high
    assert line is not None, "an empty trace was refused before"
    powers = [2**n for n in range(31) if low <= 2**n <= high]
    if USUAL_BLOCK in powers:
        return USUAL_BLOCK
    if len(powers) == 1 or low == high:
        return powers[0] if powers else low
    raise line.error(
        f"blocks of {low} to {high} tokens fit the lines so far; say which in a field block_size "
        "of the first line"
    )


def _lengths(line: TraceLine) -> tuple[int, list[object]]:
    return line.integer("input_length", 1), line.array("hash_ids")
