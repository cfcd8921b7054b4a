"""Who executes an engine's steps, by device: `StepRunner`. Knows no scheduler and no tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from radixchat.engine.batch import RequestResult, ScheduledRequest
from radixchat.engine.config import EnginePlan
from radixchat.engine.device_queue import CudaQueue, DeviceQueue
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.runner import Runner
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops


class StepRunner(Protocol):
    """Executes steps for one model under one plan."""

    @property
    def pages(self) -> ops.KVPages:
        """K and V of the pool's pages, and of none or some behind them."""

    def run(self, scheduled: Sequence[ScheduledRequest]) -> list[RequestResult]:
        """Compute the scheduled tokens and drafts, and sample; one result per item, in order."""


def step_runner(
    checkpoint: Checkpoint,
    plan: EnginePlan,
    queue: DeviceQueue | None = None,
    *,
    looks_ahead: bool = True,
) -> StepRunner:
    """The plan's own, or one for the device of a queue. looks_ahead: if it has a queue.

    A model that transformers computes has one runner for every device, without a queue.
    """
    if checkpoint.module is not None:
        # What its code launches is not known to be always the same, as a graph would need it.
        return Runner(checkpoint, plan)
    if queue is None and plan.device == "cuda":
        queue = CudaQueue()
    if queue is None:
        return Runner(checkpoint, plan)
    return DeviceRunner(checkpoint, plan, queue, looks_ahead=looks_ahead)
