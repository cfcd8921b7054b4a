"""What computes K and V here besides the model: `computing_machine`. Knows no model and no page.

The same tokens have the same bits as long as it stays the same. Another release of a library, or
another processor, may add in another order.
"""

from __future__ import annotations

import platform
from importlib.metadata import version

import torch

from radixchat.kernels import ops


def computing_machine(device: str) -> str:
    """Names kernels, libraries and processor of "cpu" or "cuda"; equal names compute equal bits."""
    if device == "cuda":
        kernels = f"{torch.cuda.get_device_name()}, radixchat {version('radixchat')}"
    else:
        # Named for the kernels' sources, their compiler and the processor.
        folder = ops.compiled_folder()
        kernels = platform.processor() if folder is None else folder.name
    return f"torch {torch.__version__}, {kernels}"
