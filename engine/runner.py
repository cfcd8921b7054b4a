"""One step on the device: a scheduled list of requests in, one new token per finished row out.

Owns the decoder and the KV tensors. Knows no queue and no tree.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from radixchat.engine.batch import RequestResult, ScheduledRequest, build_batch
from radixchat.engine.config import EnginePlan
from radixchat.engine.model import Decoder
from radixchat.engine.step_results import step_results
from radixchat.engine.transformers_model import TransformersDecoder
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops

_LOGGER = logging.getLogger(__name__)


class Runner:
    """Executes steps for one model under one plan."""

    def __init__(self, checkpoint: Checkpoint, plan: EnginePlan) -> None:
        torch.set_num_threads(plan.threads)
        config = checkpoint.config
        kv_dtype = torch.int8 if plan.kv == "int8" else checkpoint.dtype
        self._device = plan.device
        self._plan = plan
        self._decoder = (
            decoder(checkpoint, plan, kv_dtype)
            if checkpoint.module is None
            else transformers_decoder(checkpoint, plan)
        )
        self.pages = ops.empty_pages(
            config.num_layers,
            plan.num_pages,
            config.num_kv_heads,
            plan.page_size,
            config.head_dim,
            kv_dtype,
            self._device,
        )

    @torch.inference_mode()
    def run(self, scheduled: Sequence[ScheduledRequest]) -> list[RequestResult]:
        """Compute the scheduled tokens and drafts, and sample; one result per item, in order."""
        for item in scheduled:
            allocation = item.request.allocation
            assert allocation is not None
            copies = [(copy.source, copy.destination, copy.num_slots) for copy in allocation.copies]
            self.pages.copy_slots(copies)
            allocation.copies.clear()
            if item.samples and item.request.grammar is not None:
                # A worker computes them while the forward pass runs.
                item.request.grammar.begin_masks(item.draft)
        batch = build_batch(
            scheduled, self._plan.page_size, self._decoder.row_alignment, self._device
        )
        return self._results(scheduled, self._decoder(batch, self.pages))

    def _results(
        self, scheduled: Sequence[ScheduledRequest], logits: Tensor
    ) -> list[RequestResult]:
        return step_results(scheduled, logits)


def transformers_decoder(checkpoint: Checkpoint, plan: EnginePlan) -> TransformersDecoder:
    """The decoder of a model that transformers computes, its module moved to the plan's device."""
    made = TransformersDecoder(
        checkpoint.config, checkpoint.module, threads=plan.threads, device=plan.device
    )
    if plan.device != "cpu":
        made.probe()  # loading has tried it on the CPU
    return made


def decoder(checkpoint: Checkpoint, plan: EnginePlan, kv_dtype: torch.dtype) -> Decoder:
    """The fastest decoder that keeps the plan's promise on this machine, tried out for it."""
    found = []
    # A GPU's graph would keep what torch's layers read of a step on the host.
    for compiled in (True, False) if plan.device == "cpu" else (True,):
        made = Decoder(
            checkpoint.config,
            checkpoint.tensors,
            plan.max_tokens,
            exact=plan.exact,
            threads=plan.threads,
            compiled=compiled,
            device=plan.device,
        )
        if not plan.exact or (problem := made.inexactness(kv_dtype, plan.page_size)) is None:
            return made
        arithmetic = "compiled" if compiled else "torch's"
        _LOGGER.warning("on this machine %s arithmetic is not exact: %s", arithmetic, problem)
        found.append(made)
    return found[0]
