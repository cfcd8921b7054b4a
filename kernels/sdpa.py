"""The control that exactness tests must fail: products of any row count, torch's own attention.

What most engines on torch compute. It is right to rounding, but a row's last bits depend on how
many rows are computed with it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels.kv_pages import KVLayer
from radixchat.kernels.ragged import Ragged


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [rows, in] times weight [out, in] transposed, as torch likes it."""
    return functional.linear(x, weight, bias)


def paged_attention(query: Tensor, kv: KVLayer, step: Ragged) -> Tensor:
    """As `reference.paged_attention`: gathers each request's K and V for torch's attention."""
    output = torch.zeros_like(query)
    heads, kv_heads = query.shape[1], kv.k.shape[1]
    for index in range(step.num_requests):
        start, end = int(step.starts[index]), int(step.starts[index + 1])
        length = int(step.lengths[index])
        where = torch.arange(length, device=query.device)
        pages = step.page_tables[index][where // kv.page_size].long()
        offsets = where % kv.page_size
        keys, values = kv.k[pages, :, offsets].float(), kv.v[pages, :, offsets].float()
        if kv.k_scale is not None and kv.v_scale is not None:
            keys *= kv.k_scale[pages, :, offsets].float().unsqueeze(-1)
            values *= kv.v_scale[pages, :, offsets].float().unsqueeze(-1)
        visible = (
            where <= torch.arange(length - (end - start), length, device=query.device)[:, None]
        )
        attended = functional.scaled_dot_product_attention(
            query[start:end].transpose(0, 1).float(),
            keys.transpose(0, 1).repeat_interleave(heads // kv_heads, dim=0),
            values.transpose(0, 1).repeat_interleave(heads // kv_heads, dim=0),
            attn_mask=visible,
        )
        output[start:end] = attended.transpose(0, 1).to(query.dtype)
    return output
