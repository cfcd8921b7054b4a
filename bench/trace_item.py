"""What a trace of traffic is made of: requests, signals, and the error of a damaged line.

Owns the values that every reader (`trace_blocks.py`, `trace_chats.py`, `trace_tokens.py`) yields
and that every cache of the benchmark serves. Knows no file and no format.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.radix.use import Signal


class TraceError(Exception):
    """A trace cannot be read: "FILE:LINE: what is wrong and what would do".

    path: the file's name as it was given. line: counted from 1; 0 where it is the file as a
    whole. reason: what is wrong.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}" if line else f"{path}: {reason}")


@dataclass(frozen=True, slots=True, eq=False)
class TraceRequest:
    """One prompt that was sent, and what was answered.

    prompt: int32 [units]; a unit is `Trace.unit_tokens` tokens: the block of a block-hash trace,
    else one token. num_tokens: the prompt's length in tokens; the last unit may be partly filled.
    output: int32 [units] of the reply, whose KV stays after the request (all but that of the last
    unit, which is sampled and never computed); empty where it is unknown or not kept.
    time: seconds since the trace began; where a trace has no times, the number of the request.
    namespace: b"", or of the field that was named. conversation: where the trace tells it or the
    format implies it. turn: from 1, of the conversation; 0 is unknown. superseded: the request
    replaces what its conversation had from this unit on (a regenerated answer, an edit).
    """

    prompt: NDArray[np.int32]
    num_tokens: int
    output: NDArray[np.int32]
    time: float
    namespace: bytes = b""
    conversation: str | None = None
    turn: int = 0
    superseded: int | None = None


@dataclass(frozen=True, slots=True)
class TraceSignal:
    """What a server hears of a conversation between requests; time as in `TraceRequest`."""

    time: float
    conversation: str
    signal: Signal


TraceItem = TraceRequest | TraceSignal
