"""What a step's logits mean for each scheduled request.

Knows logits and requests; no page and no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from torch import Tensor

from radixchat.engine.batch import RequestResult, ScheduledRequest
from radixchat.engine.logprobs import TokenLogprob, prompt_logprobs
from radixchat.engine.sample_row import SampleRow, sample_rows
from radixchat.engine.sampler import sample


def step_results(scheduled: Sequence[ScheduledRequest], logits: Tensor) -> list[RequestResult]:
    """One result per item; logits fp32 [rows, vocab] in the order of Batch.logit_rows."""
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


def _prompt_logprobs(item: ScheduledRequest, logits: Tensor) -> list[TokenLogprob]:
    positions, top = item.prompt_positions, item.request.sampling.prompt_logprobs
    if not positions or top is None:
        return []
    following = item.request.tokens[positions.start + 1 : positions.stop + 1]
    return prompt_logprobs(logits, following, top)
