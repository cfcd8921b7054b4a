"""One step as tensors: which tokens, at which positions, into which slots, reading which pages.

Knows no weights and no tree; built from the scheduler's decision, thrown away after the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.request import Request
from radixchat.engine.sampler import SampleResult
from radixchat.kernels import ops


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """A request and how many of its tokens, from num_computed on, this step computes.

    draft: tokens that are computed after them, only where it `samples`; `guessed`, or forced.
    """

    request: Request
    num_tokens: int
    draft: tuple[int, ...] = ()
    guessed: bool = False

    @property
    def samples(self) -> bool:
        """Whether the step reaches the request's last token and so yields the next one."""
        return self.request.num_computed + self.num_tokens == len(self.request.tokens)

    @property
    def prompt_positions(self) -> range:
        """Positions of this step after which log-probabilities of the prompt are asked for."""
        request = self.request
        if not request.wants_prompt_logprobs:
            return range(0)
        end = min(request.num_computed + self.num_tokens, request.num_prompt - 1)
        return range(max(request.num_computed, len(request.prompt_logprobs)), end)


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What a step found out for one scheduled request.

    sampled: the next token and one after each token of the draft; [] where it does not sample.
    prompt_logprobs: of the tokens after its prompt_positions.
    """

    sampled: list[SampleResult]
    prompt_logprobs: list[TokenLogprob]


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of all scheduled requests one after another, padded to what the decoder asks for.

    tokens, positions: int64 [rows]; step: whose rows they are, and the pages they read;
    logit_rows: the rows whose logits are needed, of each request first those of its
    prompt_positions, then, if it samples, its last token's and its draft's.
    """

    tokens: Tensor
    positions: Tensor
    step: ops.Ragged
    logit_rows: Tensor


def build_batch(
    scheduled: Sequence[ScheduledRequest], page_size: int, alignment: int, device: str
) -> Batch:
    """Lay the scheduled requests out as one ragged batch of a multiple of `alignment` rows."""
    tokens: list[int] = []
    positions: list[int] = []
    logit_rows: list[int] = []
    counts: list[int] = []
    tables: list[Sequence[int]] = []
    for item in scheduled:
        request, start = item.request, item.request.num_computed
        assert request.allocation is not None
        counts.append(item.num_tokens + len(item.draft))
        tables.append(request.allocation.pages)
        first_row = len(tokens) - start
        tokens += [*request.tokens[start : start + item.num_tokens], *item.draft]
        positions += range(start, start + counts[-1])
        logit_rows += [first_row + position for position in item.prompt_positions]
        if item.samples:
            logit_rows += range(len(tokens) - len(item.draft) - 1, len(tokens))
    lengths = [item.request.num_computed + n for item, n in zip(scheduled, counts, strict=True)]
    padding = [0] * (-len(tokens) % alignment)
    num_rows = len(tokens) + len(padding)
    return Batch(
        tokens=_sent(tokens + padding, device),
        positions=_sent(positions + padding, device),
        step=ops.ragged(counts, lengths, tables, page_size, num_rows, device),
        logit_rows=_sent(logit_rows, device),
    )


def _sent(numbers: Sequence[int], device: str) -> Tensor:
    """int64 on the device, without waiting for what it is doing."""
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)
