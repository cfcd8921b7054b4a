"""`CacheArm`: what the benchmark asks of a cache, be it ours or the simulation of another engine.

Owns the protocol, and which tokens of a request leave K/V behind. It knows no engine and no trace
format. All sizes are in units: the blocks of a block-hash trace, else tokens.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.trace_item import TraceRequest, TraceSignal

UNIT_BYTES = 4  # an int32


class CacheArm(Protocol):
    """A cache that serves one request after another, each to its end.

    name: of the engine. ignores: one sentence, what the simulation leaves out. page_size: units
    of the smallest piece that it keeps. too_long: requests that could never fit; they count as
    missed, and the cache does not change.
    """

    name: str
    ignores: str
    page_size: int
    too_long: int

    @property
    def evicted_units(self) -> int:
        """Units lost so far to make room."""

    @property
    def num_cached_units(self) -> int:
        """Units whose K/V is held, between two requests."""

    def serve(self, request: TraceRequest) -> int:
        """How many leading units of the prompt were found; never the last one."""

    def signal(self, signal: TraceSignal) -> None:
        """Something that only a stateful server knows; may be ignored."""


def computed_path(request: TraceRequest) -> NDArray[np.int32]:
    """int32 [units]: all whose K/V exists when the request ends.

    The prompt and the reply, without the last unit of the reply: it is sampled and never
    computed.
    """
    assert len(request.prompt) > 0, "a prompt has at least one unit"
    if len(request.output) < 2:
        return request.prompt
    return np.concatenate((request.prompt, request.output[:-1]))


def common_units(left: bytes, right: bytes) -> int:
    """The length, in units, of the longest common prefix of two int32 sequences given as bytes."""
    longest = min(len(left), len(right)) // UNIT_BYTES
    differs = np.frombuffer(left, np.int32, longest) != np.frombuffer(right, np.int32, longest)
    index = int(differs.argmax()) if longest else 0
    return index if longest and differs[index] else longest
