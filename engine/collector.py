"""`GarbageCollector`: CPython's collector runs between steps, not inside one.

Left to itself it starts a full collection in the middle of a forward pass: with 100k cached
conversations one takes 88 to 527 ms, the 99th percentile is 10 to 30 ms, and raised thresholds did
not help. The index makes no cycles. So the young are collected now and then, which takes 0.3 ms,
and all when there is nothing to do. What was there at the start is never looked at.
"""

from __future__ import annotations

import gc

STEPS_BETWEEN_YOUNG = 100
# For a process that is never idle.
STEPS_BETWEEN_ALL = 100_000


class GarbageCollector:
    """Takes the process's collector over while it is entered, unless it is switched off."""

    def __init__(self) -> None:
        self._took_over = False
        self._steps = 0  # since the process was idle last

    def __enter__(self) -> GarbageCollector:
        self._took_over = gc.isenabled()
        if self._took_over:
            gc.freeze()
            gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        if self._took_over:
            gc.unfreeze()
            gc.enable()

    def after_step(self) -> None:
        """A step has ended: time for a short collection, if it is due."""
        self._steps += 1
        if self._took_over and self._steps % STEPS_BETWEEN_YOUNG == 0:
            gc.collect(2 if self._steps % STEPS_BETWEEN_ALL == 0 else 1)

    def when_idle(self) -> None:
        """Nobody has asked for anything for a while: time for a whole collection, but only one.

        It stops every thread of the process, 260 ms with 100k cached conversations.
        """
        if self._took_over:
            gc.collect(2 if self._steps else 1)
            self._steps = 0
