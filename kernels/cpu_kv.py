"""Where the CPU kernels find the K and V of a layer: one row of int64 numbers.

Knows addresses and strides, no page's owner and no arithmetic. A row stays true as long as the
tensors live where they are; whoever keeps it keeps them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from radixchat.kernels.cpu_simd import WIDTH
from radixchat.kernels.kv_pages import SCALE_DTYPE, KVLayer

# The numbers of a row, in bytes where they are strides. The scales of float K and V are at 0.
K, V, K_SCALE, V_SCALE = 0, 1, 2, 3
K_PAGE, K_HEAD, K_SLOT, K_DIM = 4, 5, 6, 7
V_PAGE, V_HEAD, V_SLOT = 8, 9, 10
SCALE_PAGE, SCALE_HEAD, SCALE_SLOT = 11, 12, 13
NUM_KV_HEADS, PAGE_SIZE, DIM = 14, 15, 16
KV_FIELDS = 17


def describe_kv(kv: KVLayer) -> NDArray[np.int64]:
    """The row [KV_FIELDS] of a layer on the CPU: fp32, or int8 codes with fp16 scales.

    Raises ValueError for another type or device, for a head size that is no multiple of 16, and
    for V whose dimensions do not lie one after another.
    """
    dtype = torch.float32 if kv.k_scale is None else torch.int8
    found = {kv.k.dtype, kv.v.dtype}
    if found != {dtype}:
        raise ValueError(f"K and V are {found}, not {dtype}")
    if kv.k.device.type != "cpu":
        raise ValueError(f"K is on {kv.k.device}, not on the CPU")
    _, num_heads, page_size, dim = kv.k.shape
    if dim % WIDTH:
        raise ValueError(f"head size {dim} is no multiple of {WIDTH}")
    if kv.v.shape != kv.k.shape or kv.v.stride(3) != 1:
        raise ValueError(f"V of shape {tuple(kv.v.shape)} lies with strides {kv.v.stride()}")
    row = [kv.k.data_ptr(), kv.v.data_ptr(), 0, 0]
    row += [n * dtype.itemsize for n in (*kv.k.stride(), *kv.v.stride()[:3])]
    if kv.k_scale is None or kv.v_scale is None:
        row += [0, 0, 0]
    else:
        assert kv.k_scale.dtype == kv.v_scale.dtype == SCALE_DTYPE, kv.k_scale.dtype
        assert kv.k_scale.stride() == kv.v_scale.stride(), kv.v_scale.stride()
        row[K_SCALE], row[V_SCALE] = kv.k_scale.data_ptr(), kv.v_scale.data_ptr()
        row += [n * SCALE_DTYPE.itemsize for n in kv.k_scale.stride()]
    return np.array([*row, num_heads, page_size, dim], dtype=np.int64)
