"""One step on the device: a scheduled list of requests in, one new token per finished row out.

Owns the decoder and the KV tensors. Knows no queue and no tree.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor

from radixchat.engine.batch import RequestResult, ScheduledRequest, build_batch
from radixchat.engine.config import EnginePlan
from radixchat.engine.logprobs import TokenLogprob, prompt_logprobs
from radixchat.engine.model import Decoder
from radixchat.engine.sample_row import SampleRow, sample_rows
from radixchat.engine.sampler import sample
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops

_LOGGER = logging.getLogger(__name__)


class Runner:
    """Executes steps for one model under one plan."""

    def __init__(self, checkpoint: Checkpoint, plan: EnginePlan) -> None:
        torch.set_num_threads(plan.threads)
        config, norm = checkpoint.config, checkpoint.tensors["norm.weight"]
        assert isinstance(norm, Tensor)
        kv_dtype = torch.int8 if plan.kv == "int8" else norm.dtype
        self._device = str(norm.device)
        self._plan = plan
        self._decoder = decoder(checkpoint, plan, kv_dtype)
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
        """What the logits, in the order of Batch.logit_rows, mean for each item."""
        results: list[RequestResult] = []
        rows: list[SampleRow] = []
        sampled: list[int] = []  # the logits of these rows
        end = 0
        for item in scheduled:
            start, end = end, end + len(item.prompt_positions)
            results.append(RequestResult([], _prompt_logprobs(item, logits[start:end])))
            if item.samples:
                start, end = end, end + 1 + len(item.draft)
                grammar = item.request.grammar
                masks = grammar.masks() if grammar is not None else []
                rows += sample_rows(item.request, item.draft, masks)
                sampled += range(start, end)
        if rows:
            chosen = logits if len(sampled) == len(logits) else logits[sampled]
            samples = iter(sample(chosen, rows))
            for item, result in zip(scheduled, results, strict=True):
                if item.samples:
                    result.sampled.extend(islice(samples, 1 + len(item.draft)))
        return results


def decoder(checkpoint: Checkpoint, plan: EnginePlan, kv_dtype: torch.dtype) -> Decoder:
    """The fastest decoder that keeps the plan's promise on this machine, tried out for it."""
    found = []
    for compiled in (True, False):
        made = Decoder(
            checkpoint.config,
            checkpoint.tensors,
            plan.max_tokens,
            exact=plan.exact,
            threads=plan.threads,
            compiled=compiled,
        )
        if not plan.exact or (problem := made.inexactness(kv_dtype, plan.page_size)) is None:
            return made
        arithmetic = "compiled" if compiled else "torch's"
        _LOGGER.warning("on this machine %s arithmetic is not exact: %s", arithmetic, problem)
        found.append(made)
    return found[0]


def _prompt_logprobs(item: ScheduledRequest, logits: Tensor) -> list[TokenLogprob]:
    positions, top = item.prompt_positions, item.request.sampling.prompt_logprobs
    if not positions or top is None:
        return []
    following = item.request.tokens[positions.start + 1 : positions.stop + 1]
    return prompt_logprobs(logits, following, top)
