"""What the disk cache has to say while a chat runs: a note, not a line across the prompt.

Knows Python's logging, by which it is said, from any thread. Knows no disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = "radixchat.engine.tiers"


class _Notes(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._loop = asyncio.get_running_loop()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._tell, record.getMessage())


@contextmanager
def warnings_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block `tell` is called with each, on the running loop; nothing else shows them."""
    logger = logging.getLogger(_LOGGER)
    handler, propagated = _Notes(tell), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
