"""What an unlimited cache would have found in the requests of `bench serve`, one server's in order.

Owns the paths: of the first prompt of a conversation the ids are known, or nothing is said of it.
Later ones extend it by tokens whose number the server tells; which ones they are does not matter,
for no other conversation has them. Knows no server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.path_tree import PathTree
from radixchat.bench.serve_record import Record
from radixchat.bench.trace_item import TraceRequest


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A request in tokens; None is unknown. begin: ids at the beginning of a prompt that follows
    nothing, as far as it can be another's, too. cached: what the server says."""

    record: Record
    prompt: int | None
    cached: int | None
    output: int | None
    begin: tuple[int, ...] | None


def oracle(requests: Iterable[Counted]) -> list[int | None]:
    """Of each request in order of sending, how many tokens of its prompt were computed before.

    Never the prompt's last. An answer's last token is not computed, unless it ended before its
    length: whether the server counts the token that ended it is not known, so the bound is the
    larger one.
    """
    tree, new = PathTree(), count(-1, -1)
    paths: dict[Record, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
    found: list[int | None] = []
    for each in requests:
        answer, parent = each.record.answer, each.record.turn.parent
        if answer is None or each.prompt is None:
            found.append(None)
            continue
        if parent is None:
            base = np.array(each.begin or (), np.int32)[: each.prompt]
        elif parent in paths:
            base = np.concatenate(paths[parent])[: each.prompt - 1]
        else:
            found.append(None)
            continue
        prompt = np.concatenate((base, _take(new, each.prompt - len(base))))
        ended_early = answer.finish != "length"
        output = _take(new, (each.output or 0) + ended_early)
        paths[each.record] = prompt, output
        units = tree.add(TraceRequest(prompt, len(prompt), output, answer.sent))
        found.append(units if parent is not None or each.begin is not None else None)
    return found


def _take(numbers: Iterator[int], length: int) -> NDArray[np.int32]:
    return np.fromiter(numbers, np.int32, length)
