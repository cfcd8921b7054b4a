"""The operations of the decoder, for whatever device their tensors are on.

The only kernel module that the engine imports. Each function has the contract of its namesake in
`kernels/reference.py`, which today also is the implementation on every device.
"""

from __future__ import annotations

from radixchat.kernels.reference import (
    ROW_ALIGNMENT,
    copy_slots,
    linear,
    paged_attention,
    rms_norm,
    rotate,
    store_kv,
    swiglu,
)

__all__ = [
    "ROW_ALIGNMENT",
    "copy_slots",
    "linear",
    "paged_attention",
    "rms_norm",
    "rotate",
    "store_kv",
    "swiglu",
]
