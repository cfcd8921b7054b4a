"""The GPUs that torch finds on this machine, in words. Computes nothing on them."""

from __future__ import annotations

import torch


def gpus() -> tuple[str, ...]:
    """One line each: name, memory, and what code it runs."""
    if not torch.cuda.is_available():
        return ()
    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return tuple(
        f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, sm_{gpu.major}{gpu.minor}"
        for gpu in found
    )


def torch_build() -> str:
    """What torch was built for: "CUDA 12.8", "ROCm 6.2" or "CPU"."""
    if torch.version.cuda is not None:
        return f"CUDA {torch.version.cuda}"
    return "CPU" if torch.version.hip is None else f"ROCm {torch.version.hip}"
