"""Steps on a device that works while the host does, asked for one step ahead.

Decides nothing: what was assumed too early is given up where the scheduler decides otherwise. Knows
no queue of requests and no tree; `engine/device_model.py` has the tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from radixchat.engine.batch import RequestResult, ScheduledRequest, build_batch
from radixchat.engine.config import EnginePlan
from radixchat.engine.decode_inputs import RowInputs
from radixchat.engine.decode_rows import DecodeRows
from radixchat.engine.device_model import NOT_FINITE, DeviceModel, Launch
from radixchat.engine.device_queue import DeviceQueue
from radixchat.engine.lookahead import AssumedRow, goes_on, holds, is_plain
from radixchat.engine.no_token import NoToken
from radixchat.engine.request import Request
from radixchat.engine.sampler import Sampled
from radixchat.engine.step_results import step_results
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops


@dataclass(frozen=True, slots=True)
class Pending:
    """A token that the device samples: its launch, its index there, its place on the device."""

    launch: Launch
    index: int
    place: int


@dataclass(frozen=True, slots=True)
class Assumption:
    """A step asked for ahead: its rows, with the token of each row's last position."""

    launch: Launch
    rows: dict[Request, tuple[AssumedRow, int]]


@dataclass(slots=True)
class LookaheadStats:
    """Rows asked for ahead, and how many of them were what the scheduler decided."""

    assumed: int = 0
    held: int = 0


class DeviceRunner:
    """Executes steps for one model under one plan, as `Runner` does."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        plan: EnginePlan,
        queue: DeviceQueue,
        *,
        looks_ahead: bool = True,
    ) -> None:
        torch.set_num_threads(plan.threads)
        self._plan = plan
        self._device = queue.device
        self._looks_ahead = looks_ahead
        self._model = DeviceModel(checkpoint, plan, queue)
        self._model.capture()
        self._rows = DecodeRows(self._model.max_rows, self._model.max_pages)
        self._assumption: Assumption | None = None
        self.lookahead = LookaheadStats()

    @property
    def pages(self) -> ops.KVPages:
        """K and V; behind the pool's pages come spare ones, one a row."""
        return self._model.pages

    @torch.inference_mode()
    def run(self, scheduled: Sequence[ScheduledRequest]) -> list[RequestResult]:
        """Compute the scheduled tokens and drafts, and sample; one result per item, in order."""
        pending = self._held(scheduled)
        self._prepare(scheduled)
        rest = [item for item in scheduled if item.request not in pending]
        results: dict[Request, RequestResult] = {}
        if rest and not pending and all(map(self._is_decode, rest)):
            launch, rows = self._decode([item.request for item in rest], {})
            pending = {row.request: Pending(launch, row.place, row.place) for row in rows}
        elif rest:
            more, results = self._forward(rest)
            pending |= more
        ahead = self._ask_ahead(scheduled, pending)
        tokens = _read(pending)
        results |= {request: _result(token) for request, token in tokens.items()}
        if ahead is not None:
            launch, rows = ahead
            known = {row.request: (row, tokens[row.request]) for row in rows}
            self._assumption = Assumption(launch, known)
        return [results[item.request] for item in scheduled]

    def _held(self, scheduled: Sequence[ScheduledRequest]) -> dict[Request, Pending]:
        """What of the assumption is what was scheduled; its K and V go where they belong now.

        This comes before anything else is written: a page that a row was computed into may have
        been given to somebody else since.
        """
        assumption, self._assumption = self._assumption, None
        if assumption is None:
            return {}
        held: dict[Request, Pending] = {}
        moves: list[tuple[int, int]] = []
        for item in scheduled:
            row, token = assumption.rows.get(item.request, (None, NOT_FINITE))
            if row is None or not holds(row, item, token, draws=self._model.draws):
                continue
            held[row.request] = Pending(assumption.launch, row.place, row.place)
            slot = self._slot(item.request, row.length, spare=None)
            if slot != row.slot:
                moves.append((row.slot, slot))
        self._model.move_slots(moves)
        self.lookahead.held += len(held)
        return held

    def _prepare(self, scheduled: Sequence[ScheduledRequest]) -> None:
        for item in scheduled:
            allocation = item.request.allocation
            assert allocation is not None
            copies = [(copy.source, copy.destination, copy.num_slots) for copy in allocation.copies]
            self.pages.copy_slots(copies)
            allocation.copies.clear()
            if item.samples and item.request.grammar is not None:
                # A worker computes them while the forward pass runs.
                item.request.grammar.begin_masks(item.draft)

    def _forward(
        self, items: Sequence[ScheduledRequest]
    ) -> tuple[dict[Request, Pending], dict[Request, RequestResult]]:
        """A step of any shape: what the device samples, and the results of the others."""
        batch = build_batch(items, self._plan.page_size, self._model.row_alignment, self._device)
        logits = self._model.forward(batch)
        plain: list[int] = []  # rows of logits
        pending: list[Request] = []
        others: list[ScheduledRequest] = []
        kept: list[int] = []  # their rows of logits
        end = 0
        for item in items:
            start = end
            end += len(item.prompt_positions) + (1 + len(item.draft) if item.samples else 0)
            if self._is_plain(item):
                plain.append(start)
                pending.append(item.request)
            else:
                others.append(item)
                kept += range(start, end)
        sampled: dict[Request, Pending] = {}
        if plain:
            drawn = RowInputs.empty(len(plain))
            for index, request in enumerate(pending):
                _set_draw(drawn, index, request, len(request.tokens))
            launch = self._model.sample(_rows_of(logits, plain), drawn)
            first = self._model.max_rows
            sampled = {r: Pending(launch, i, first + i) for i, r in enumerate(pending)}
        results = step_results(others, _rows_of(logits, kept))
        by_request = zip((item.request for item in others), results, strict=True)
        return sampled, dict(by_request)

    def _ask_ahead(
        self, scheduled: Sequence[ScheduledRequest], pending: dict[Request, Pending]
    ) -> tuple[Launch, list[AssumedRow]] | None:
        """The next step, where all can be assumed to go on as they do; else None.

        Not beside a prompt that has more to compute, whose next chunk is computed with the others'
        tokens for the price of one, nor beside an answer that the host has to sample.
        """
        if not self._looks_ahead or not all(map(self._is_plain, scheduled)):
            return None
        requests = [item.request for item in scheduled if goes_on(item, self._plan)]
        if not requests:
            return None
        self.lookahead.assumed += len(requests)
        return self._decode(requests, {r: pending[r].place for r in requests})

    def _decode(
        self, requests: Sequence[Request], sources: dict[Request, int]
    ) -> tuple[Launch, list[AssumedRow]]:
        """The last token of each; with a source, one that the device has sampled behind it."""
        count = len(requests)
        rows = RowInputs.empty(count)
        assumed: list[AssumedRow] = []
        for request, row in zip(requests, self._rows.assign(requests), strict=True):
            assert request.allocation is not None
            source = sources.get(request)
            length = len(request.tokens) + (source is not None)
            spare = self._plan.num_pages + row
            slot = self._slot(request, length, spare)
            pages = request.allocation.pages
            is_spare = slot // self._plan.page_size == spare
            self._rows.write(row, [*pages, spare] if is_spare else pages)
            rows.slots[row], rows.lengths[row] = slot, length
            _set_draw(rows, row, request, length)
            if source is None:
                rows.tokens[row] = request.tokens[-1]
            else:
                rows.sources[row] = source
            assumed.append(AssumedRow(request, length, slot, row))
        return self._model.decode(rows, self._rows.tables[:count]), assumed

    def _is_plain(self, item: ScheduledRequest) -> bool:
        return is_plain(item, draws=self._model.draws)

    def _is_decode(self, item: ScheduledRequest) -> bool:
        return item.num_tokens == 1 and self._is_plain(item)

    def _slot(self, request: Request, length: int, spare: int | None) -> int:
        """Where the last of `length` positions is; in page `spare` if the request's end before."""
        assert request.allocation is not None
        pages, page_size = request.allocation.pages, self._plan.page_size
        index, offset = divmod(length - 1, page_size)
        if index < len(pages):
            return pages[index] * page_size + offset
        assert spare is not None, "what is scheduled has its pages"
        assert index == len(pages)
        return spare * page_size + offset


def _rows_of(logits: Tensor, rows: Sequence[int]) -> Tensor:
    """These rows, ascending; without waiting for the device, as a list as index would."""
    if len(rows) == len(logits):
        return logits
    return logits[torch.tensor(rows, dtype=torch.int64).to(logits.device, non_blocking=True)]


def _set_draw(rows: RowInputs, row: int, request: Request, position: int) -> None:
    """How the row's token is sampled; position: the token's."""
    params = request.sampling
    top_k = min(params.top_k, 2**31 - 1)  # more than any vocabulary
    rows.draw_counts[:, row] = params.seed, position, top_k
    rows.draw_numbers[:, row] = params.temperature, params.top_p, params.min_p


def _read(pending: dict[Request, Pending]) -> dict[Request, int]:
    """The tokens; waits for the launches."""
    tokens = {launch: launch.read() for launch in {p.launch for p in pending.values()}}
    return {request: tokens[p.launch][p.index] for request, p in pending.items()}


def _result(token: int) -> RequestResult:
    return RequestResult([NoToken.NOT_FINITE if token == NOT_FINITE else Sampled(token)], [])
