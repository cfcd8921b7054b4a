"""Torch's library, mapped into the process beside what goes on in it. Knows nothing of torch.

Importing torch maps some 300 MB of shared library, and holds Python's lock while it does: measured
190 ms in which no key is echoed. What is mapped already costs the import 30 ms.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path


def map_torch_library() -> None:
    """Map it, without Python's lock; for a thread. Where that cannot be, the import will do it."""
    found = importlib.util.find_spec("torch")
    if sys.platform != "linux" or found is None or found.origin is None:
        return
    library = Path(found.origin).parent / "lib" / "libtorch.so"
    # A call through ctypes lets go of the lock; ctypes.CDLL(library), which maps it too, does not.
    process = ctypes.CDLL(None)
    process.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    process.dlopen.restype = ctypes.c_void_p
    process.dlopen(bytes(library), os.RTLD_NOW)
