"""What an unlimited cache would have found in the requests of `bench serve`, one server's in order.

Owns the paths. A prompt extends the prompt and the answer that it follows, by so many tokens as the
server tells; of an answer it does not matter which they are, for no other conversation has them.
Knows no server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.path_tree import PathTree
from radixchat.bench.serve_record import Record
from radixchat.bench.trace_item import TraceRequest

_Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A request in tokens; None is unknown. ids: of the whole prompt, as a tokenizer makes them of
    its text; the server may have kept others for the answers. cached: what the server says."""

    record: Record
    prompt: int | None
    cached: int | None
    output: int | None
    ids: tuple[int, ...] | None


def oracle(requests: Iterable[Counted]) -> list[int | None]:
    """Of each request in order of sending, how many tokens of its prompt were computed before.

    Never the prompt's last. An answer's last token is not computed, unless it ended before its
    length: whether the server counts the token that ended it is not known, so the bound is the
    larger one. None where it is unknown: without ids a conversation's beginning, and the second
    prompt that follows the same answer.
    """
    tree, paths = PathTree(), _Paths()
    found: list[int | None] = []
    for each in requests:
        answer = each.record.answer
        path = paths.add(each)
        if path is None or answer is None:
            found.append(None)
            continue
        prompt, output = path
        units = tree.add(TraceRequest(prompt, len(prompt), output, answer.sent))
        found.append(units if each.ids is not None or paths.is_first_to_follow(each) else None)
    return found


class _Paths:
    """Prompt and output of each request; what is not known is -1, -2 and so on, none twice."""

    def __init__(self) -> None:
        self._new = count(-1, -1)
        self._paths: dict[Record, tuple[_Ids, _Ids]] = {}
        self._followers: dict[Record, Record] = {}

    def add(self, request: Counted) -> tuple[_Ids, _Ids] | None:
        """None where its length, or what it follows, is unknown."""
        answer, parent = request.record.answer, request.record.turn.parent
        if answer is None or request.prompt is None:
            return None
        ids = np.array(request.ids or (), np.int32)
        if parent is None:
            known = ids[: request.prompt]
            prompt = np.concatenate((known, self._take(request.prompt - len(known))))
        elif parent in self._paths:
            base = np.concatenate(self._paths[parent])[: request.prompt - 1]
            missing = request.prompt - len(base)
            tail = ids[-missing:]
            prompt = np.concatenate((base, self._take(missing - len(tail)), tail))
            self._followers.setdefault(parent, request.record)
        else:
            return None
        ended_early = answer.finish != "length"
        output = self._take((request.output or 0) + ended_early)
        self._paths[request.record] = prompt, output
        return prompt, output

    def is_first_to_follow(self, request: Counted) -> bool:
        """Whether it follows an answer that nothing else followed before."""
        parent = request.record.turn.parent
        return parent is not None and self._followers.get(parent) is request.record

    def _take(self, length: int) -> _Ids:
        return np.fromiter(self._new, np.int32, length)
