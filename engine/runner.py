"""One step on the device: a scheduled list of requests in, one new token per finished row out.

Owns the decoder and the KV tensors. Knows no queue and no tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from radixchat.engine.batch import ScheduledRequest, build_batch
from radixchat.engine.config import EnginePlan
from radixchat.engine.kv_cache import KVCache
from radixchat.engine.model import Decoder
from radixchat.engine.sampler import SampleRow, sample
from radixchat.engine.weights import Checkpoint


class Runner:
    """Executes steps for one model under one plan."""

    def __init__(self, checkpoint: Checkpoint, plan: EnginePlan) -> None:
        torch.set_num_threads(plan.threads)
        embedding = checkpoint.tensors["embed_tokens.weight"]
        self._device = str(embedding.device)
        self._plan = plan
        self._decoder = Decoder(checkpoint.config, checkpoint.tensors, plan.max_tokens)
        self.kv_cache = KVCache(
            checkpoint.config, plan.num_pages, plan.page_size, embedding.dtype, self._device
        )

    @torch.inference_mode()
    def run(self, scheduled: Sequence[ScheduledRequest]) -> list[int | None]:
        """Compute the scheduled tokens; one sampled token per item that `samples`, in order.

        None where the logits are not finite: damaged weights, or an overflow.
        """
        for item in scheduled:
            allocation = item.request.allocation
            assert allocation is not None
            self.kv_cache.copy(allocation.copies)
            allocation.copies.clear()
        batch = build_batch(scheduled, self._plan.page_size, self._device)
        logits = self._decoder(batch, self.kv_cache)
        requests = [item.request for item in scheduled if item.samples]
        if not requests:
            return []
        rows = [SampleRow(r.sampling, len(r.tokens)) for r in requests]
        finite = logits.isfinite().all(-1, keepdim=True)
        tokens = sample(logits.where(finite, 0.0), rows)
        return [token if ok else None for token, (ok,) in zip(tokens, finite.tolist(), strict=True)]
