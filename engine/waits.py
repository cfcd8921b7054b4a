"""What each request waits for, in words: `Wait`. Changes nothing; knows no queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.config import EnginePlan
from radixchat.engine.joining import is_ahead
from radixchat.engine.request import Request


@dataclass(frozen=True, slots=True)
class Wait:
    """What a request waits for, with the numbers that decide."""

    request_id: int
    why: str

    def __str__(self) -> str:
        return f"request {self.request_id} {self.why}"


def waits_of(
    waiting: Sequence[Request],
    running: Sequence[Request],
    plan: EnginePlan,
    num_available: int,
) -> list[Wait]:
    """Of the waiting in the order of their line, then of those that run.

    num_available: pages that are free, or free on demand.
    """
    waits = []
    for index, request in enumerate(waiting):
        needed = -(-len(request.tokens) // plan.page_size)
        if is_ahead(request) and request.joined is not None:
            why = f"waits for request {request.joined.id}, which computes its prompt"
        elif len(running) >= plan.max_running:
            why = f"waits for a place: {len(running)} of {plan.max_running} requests run"
        else:
            why = f"waits for pages: {needed} at most, {num_available} are free or can be"
        waits.append(Wait(request.id, f"{why}; {index} are before it" if index else why))
    waits += [
        Wait(r.id, f"runs, {r.num_computed} of {len(r.tokens)} tokens are computed")
        for r in running
    ]
    return waits
