"""The decoder on a device: steps of any shape as they come, decode steps as replayed graphs.

Owns the weights there, the K/V tensors, what a decode step reads and the tokens sampled last. Knows
pages and places; no request, no scheduler and no tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.config import EnginePlan
from radixchat.engine.decode_inputs import InputQueue, RowInputs
from radixchat.engine.device_queue import DeviceQueue, Mark
from radixchat.engine.graphs import DecodeGraphs, bucket_sizes
from radixchat.engine.runner import decoder
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops

NOT_FINITE = -1  # in place of a token
# A step's tokens are read while the next is on its way, and a third may have been asked for beside.
_TOKEN_BUFFERS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A step that the device was asked for. tokens: int64 on the host, there once mark is past.

    They are read, if at all, before another _TOKEN_BUFFERS steps are asked for.
    """

    mark: Mark
    tokens: Tensor

    def read(self) -> list[int]:
        """What was sampled, by row; waits for it."""
        self.mark.synchronize()
        tokens: list[int] = self.tokens.tolist()
        return tokens


class DeviceModel:
    """One model under one plan, on the device of a queue.

    max_rows: of a decode step. Tokens sampled last have places: a decode step's are its rows, those
    of another step follow from max_rows on. Each row may have a spare page, behind the pool's.
    draws: whether it samples at a temperature too.
    """

    def __init__(self, checkpoint: Checkpoint, plan: EnginePlan, queue: DeviceQueue) -> None:
        config, device = checkpoint.config, queue.device
        tensors: dict[str, Tensor] = {}
        for name, matrix in checkpoint.tensors.items():
            assert isinstance(matrix, Tensor), f"{name} is packed, which only the CPU computes with"
            tensors[name] = matrix.to(device)
        kv_dtype = torch.int8 if plan.kv == "int8" else tensors["norm.weight"].dtype
        self._decoder = decoder(replace(checkpoint, tensors=tensors), plan, kv_dtype)
        self.row_alignment = self._decoder.row_alignment
        self.draws = plan.device == "cuda"
        self._queue, self._page_size = queue, plan.page_size
        sizes = bucket_sizes(plan.max_running, self.row_alignment)
        self.max_rows = sizes[-1]
        self.pages = ops.empty_pages(
            config.num_layers,
            plan.num_pages + self.max_rows,
            config.num_kv_heads,
            plan.page_size,
            config.head_dim,
            kv_dtype,
            device,
        )
        self.max_pages = -(-plan.max_tokens // plan.page_size)
        self._inputs = InputQueue(sizes, self.max_pages, queue)
        self._sampled = torch.zeros(2 * self.max_rows, dtype=torch.int64, device=device)
        self._rows = torch.arange(self.max_rows + 1, device=device)
        self._starts = self._rows.to(torch.int32)
        self._planned: ops.Ragged | None = None  # the step asked for last, as it was planned
        self._buffers = [
            queue.host_tensor(self.max_rows, torch.int64) for _ in range(_TOKEN_BUFFERS)
        ]
        self._launches = 0
        # One without shared prefixes, and maybe one with.
        self._stacks = ops.decode_stacks(self._decoder.layers, self.pages, self.max_rows)
        self._graphs = [
            DecodeGraphs(partial(self._step, stack), sizes, queue) for stack in self._stacks
        ]

    @torch.inference_mode()
    def capture(self) -> None:
        """Make the graphs of all sizes, with rows of nobody: nothing is read, nothing written."""
        nobody = np.zeros((0, self.max_pages), dtype=np.int32)
        for stack, graphs in zip(self._stacks, self._graphs, strict=True):
            for size in reversed(graphs.sizes):
                self._send(stack, size, RowInputs.empty(0), nobody, ())
                graphs.capture(size)

    def decode(self, rows: RowInputs, tables: NDArray[np.int32]) -> Launch:
        """Ask for one token for each of these rows; tables [rows, max_pages]."""
        shared: Sequence[ops.SharedPrefix] = ()
        if len(self._stacks) > 1:
            shared = ops.decode_prefixes(tables, rows.lengths, self._page_size)
        index = 1 if shared else 0
        size = self._graphs[index].size_for(len(tables))
        self._send(self._stacks[index], size, rows, tables, shared)
        self._graphs[index].replay(size)
        return self._launched(self._sampled[: len(tables)])

    def forward(self, batch: Batch) -> Tensor:
        """The logits of a step of any shape, fp32 [len(batch.logit_rows), vocab]."""
        return self._decoder(batch, self.pages)

    def sample(self, logits: Tensor, rows: RowInputs) -> Launch:
        """The tokens of these rows; their places are max_rows, max_rows + 1 and so on."""
        device = self._queue.device
        draw = [
            torch.from_numpy(values).to(device, non_blocking=True)
            for values in (rows.draw_counts, rows.draw_numbers)
        ]
        sampled = self._sampled[self.max_rows : self.max_rows + len(logits)]
        sampled.copy_(self._pick(logits, *draw))
        return self._launched(sampled)

    def move_slots(self, moves: Sequence[tuple[int, int]]) -> None:
        """For each (source, destination) copy what is in a slot, in all layers.

        No slot is both a source and a destination, or twice a destination.
        """
        if not moves:
            return
        slots = torch.tensor(moves, dtype=torch.int64).T.contiguous()
        slots = slots.to(self._queue.device, non_blocking=True)
        source, destination = slots // self._page_size
        source_offset, destination_offset = slots % self._page_size
        for part in self.pages.parts():
            part[:, destination, :, destination_offset] = part[:, source, :, source_offset]

    def _send(
        self,
        stack: ops.DecodeStack,
        size: int,
        rows: RowInputs,
        tables: NDArray[np.int32],
        shared: Sequence[ops.SharedPrefix],
    ) -> None:
        """Everything that a graph of this size reads, on its way to the device."""
        self._inputs.send(size, rows, tables)
        inputs = self._inputs.inputs(size)
        self._planned = ops.Ragged(
            query_starts=self._starts[: size + 1],
            kv_lengths=inputs.lengths,
            page_tables=inputs.tables,
            slots=inputs.slots,
            starts=np.arange(len(tables) + 1, dtype=np.int32),
            lengths=rows.lengths,
        )
        stack.plan(self._planned, size, shared)

    def _launched(self, sampled: Tensor) -> Launch:
        tokens = self._buffers[self._launches % _TOKEN_BUFFERS][: len(sampled)]
        self._launches += 1
        tokens.copy_(sampled, non_blocking=True)
        return Launch(self._queue.mark(), tokens)

    def _step(self, stack: ops.DecodeStack, size: int) -> None:
        """What a graph of this size does: of the step only tensors, which are where they were."""
        inputs, step = self._inputs.inputs(size), self._planned
        assert step is not None
        sources = inputs.sources.long()
        # A source that had no token ends its request; until the host knows, any token will do.
        known = self._sampled[sources.clamp_min(0)].clamp_min(0)
        tokens = torch.where(sources >= 0, known, inputs.tokens.long())
        positions = (inputs.lengths.long() - 1).clamp_min(0)
        batch = Batch(tokens, positions, step, self._rows[:size])
        logits = self._decoder(batch, self.pages, stack)
        self._sampled[:size] = self._pick(logits, inputs.draw_counts, inputs.draw_numbers)

    def _pick(self, logits: Tensor, counts: Tensor, numbers: Tensor) -> Tensor:
        if self.draws:
            return ops.draw_tokens(logits, counts, numbers)
        return greedy(logits)


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row, int64 [rows]; NOT_FINITE where a logit is not finite."""
    finite = (logits.amin(-1) > -torch.inf) & (logits.amax(-1) < torch.inf)
    return torch.where(finite, logits.argmax(-1), NOT_FINITE)
