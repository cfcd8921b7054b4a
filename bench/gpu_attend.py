"""Our attention as it is checked and timed; planned beforehand, as it is once for all layers.

Knows the kernels' calls; no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from radixchat.bench.gpu_case import AttentionCase, AttentionTensors
from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, StepLimits
from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.shared_prefix import shared_prefixes
from radixchat.kernels.triton_attention import attend


def plain(
    tensors: AttentionTensors, case: AttentionCase, *, exact: bool = False
) -> Callable[[], Tensor]:
    """What computes the case, each request reading its own pages; into one tensor, each time."""
    return _planned(tensors, case, (), exact=exact)


def cascade(tensors: AttentionTensors, case: AttentionCase) -> Callable[[], Tensor]:
    """What computes the case with shared pages read once."""
    step = tensors.step
    tables = step.page_tables.cpu().numpy()
    shared = shared_prefixes(tables, step.starts, step.lengths, case.page_size, least=1)
    assert sum(group.num_tokens for group in shared) == case.shared, shared
    return _planned(tensors, case, shared, exact=False)


def attended(tensors: AttentionTensors, case: AttentionCase) -> Tensor:
    """The case's attention, by cascade where a prefix is shared; NaN where nothing is written."""
    return (cascade if case.shared else plain)(tensors, case)()


def _planned(
    tensors: AttentionTensors,
    case: AttentionCase,
    shared: Sequence[SharedPrefix],
    *,
    exact: bool,
) -> Callable[[], Tensor]:
    query, kv, step = tensors.query, tensors.kv, tensors.step
    shape = AttentionShape(
        case.shape.heads,
        case.shape.kv_heads,
        case.shape.dim,
        case.page_size,
        query.dtype,
        kv.k.dtype,
    )
    limits = StepLimits(len(query), step.num_requests, cascade=bool(shared))
    work = AttentionWork(shape, limits, str(query.device), exact=exact)
    work.fill(step, len(query), shared)
    output = torch.full_like(query, torch.nan)

    def run() -> Tensor:
        attend(query, kv, step.page_tables, work, output)
        return output

    return run
