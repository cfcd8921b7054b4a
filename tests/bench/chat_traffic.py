"""Random traces shaped like chats, small enough to be checked by exhaustion. Knows no cache."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from radixchat.bench.trace_item import TraceRequest


def request(
    prompt: Sequence[int], output: Sequence[int] = (), namespace: bytes = b""
) -> TraceRequest:
    return TraceRequest(
        np.array(prompt, np.int32), len(prompt), np.array(output, np.int32), 0.0, namespace
    )


class ChatTraffic:
    """Conversations that grow, are resent, regenerated, edited and forked, in turn.

    values: how many different units there are; few of them let strangers share prefixes. longest:
    units of one message. system: units of the trunks that conversations begin with.
    """

    def __init__(self, seed: int, values: int = 3, longest: int = 4, system: int = 6) -> None:
        self._random = random.Random(seed)
        self._values = values
        self._longest = longest
        trunks = [self._message(system) for _ in range(2)]
        self._trunks = [(namespace, trunk) for namespace in (b"", b"other") for trunk in trunks]
        self._sent: list[TraceRequest] = []

    def requests(self, count: int) -> list[TraceRequest]:
        """The next `count` requests."""
        return [self._next() for _ in range(count)]

    def _next(self) -> TraceRequest:
        kind = self._random.random()
        if kind < 0.25 or not self._sent:
            namespace, trunk = self._random.choice(self._trunks)
            prompt = trunk + self._message(self._longest)
            chosen = request(prompt, self._message(self._longest), namespace)
        else:
            earlier = self._random.choice(self._sent[-5:])
            prompt, output = earlier.prompt.tolist(), earlier.output.tolist()
            if kind < 0.65:  # the next turn
                prompt, output = prompt + output + self._message(self._longest), None
            elif kind < 0.75:  # regenerated
                output = None
            elif kind < 0.9:  # an edit
                cut = self._random.randrange(len(prompt))
                prompt, output = prompt[:cut] + self._message(self._longest), None
            if output is None:
                output = self._message(self._longest) if self._random.random() < 0.8 else []
            chosen = request(prompt, output, earlier.namespace)
        self._sent.append(chosen)
        return chosen

    def _message(self, longest: int) -> list[int]:
        length = self._random.randint(1, longest)
        return [self._random.randrange(self._values) for _ in range(length)]
