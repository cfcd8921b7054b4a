"""Python's garbage collector while a model is loaded: off, and afterwards blind to what came.

Knows no model. The process is this command's own, so its collector is, too.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing in the block, and never again what it has brought.

    Importing torch and Numba makes some 400,000 objects that stay, and the collector would look at
    all of them a dozen times: 0.3 of 1.7 s. Later it would do so in the middle of an answer,
    0.1 s each time; and while the block runs beside a prompt, no key is echoed meanwhile.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def collect_all() -> None:
    """Collect what nobody uses any more, of what such blocks have brought too: a model, say."""
    gc.unfreeze()
    gc.collect()
