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
    """The rows of all scheduled requests one after another, padded to ops.ROW_ALIGNMENT.

    tokens, positions: int64 [rows]; slots: int64 [real rows]; query_starts: first row of each
    request and the number of real rows; kv_lengths: positions that exist after the step;
    page_tables: int64 [pages] each; logit_rows: the rows whose logits are needed, of each request
    first those of its prompt_positions, then, if it samples, its last token's and its draft's.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    query_starts: list[int]
    kv_lengths: list[int]
    page_tables: list[Tensor]
    logit_rows: Tensor

    @property
    def num_rows(self) -> int:
        """Rows that belong to requests, without the padding."""
        return self.query_starts[-1]


def build_batch(scheduled: Sequence[ScheduledRequest], page_size: int, device: str) -> Batch:
    """Lay the scheduled requests out as one ragged batch on the device."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[Tensor] = []
    query_starts, kv_lengths, logit_rows = [0], [], list[int]()
    page_tables: list[Tensor] = []
    for item in scheduled:
        request, start = item.request, item.request.num_computed
        end = start + item.num_tokens + len(item.draft)
        assert request.allocation is not None
        table = torch.tensor(request.allocation.pages, dtype=torch.int64)
        where = torch.arange(start, end)
        slots.append(table[where // page_size] * page_size + where % page_size)
        first_row = len(tokens) - start
        tokens += [*request.tokens[start : start + item.num_tokens], *item.draft]
        positions += range(start, end)
        query_starts.append(len(tokens))
        kv_lengths.append(end)
        page_tables.append(table.to(device))
        logit_rows += [first_row + position for position in item.prompt_positions]
        if item.samples:
            logit_rows += range(len(tokens) - len(item.draft) - 1, len(tokens))
    padding = [0] * (-len(tokens) % ops.ROW_ALIGNMENT)
    return Batch(
        tokens=torch.tensor(tokens + padding, device=device),
        positions=torch.tensor(positions + padding, device=device),
        slots=torch.cat(slots).to(device),
        query_starts=query_starts,
        kv_lengths=kv_lengths,
        page_tables=page_tables,
        logit_rows=torch.tensor(logit_rows, dtype=torch.int64, device=device),
    )
