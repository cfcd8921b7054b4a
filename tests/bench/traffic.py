"""Requests for the tests of caches, written out or made by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from radixchat.bench.arm import CacheArm
from radixchat.bench.trace_item import TraceRequest


def ask(
    prompt: Sequence[int],
    output: Sequence[int] = (),
    *,
    namespace: bytes = b"",
    conversation: str | None = None,
    superseded: int | None = None,
) -> TraceRequest:
    """A request at time 0, a unit being a token."""
    return TraceRequest(
        np.array(prompt, np.int32),
        len(prompt),
        np.array(output, np.int32),
        0.0,
        namespace,
        conversation,
        superseded=superseded,
    )


def serve_all(arm: CacheArm, prompts: Sequence[Sequence[int]]) -> list[int]:
    """Serve prompts without replies; what was found of each."""
    return [arm.serve(ask(prompt)) for prompt in prompts]


def chats(seed: int, num_requests: int, *, num_values: int = 3) -> list[TraceRequest]:
    """Conversations that grow, branch, repeat and are cut back, of few values, so that they meet.

    Of two namespaces; about one request in ten is as long as 40 units.
    """
    rng = random.Random(seed)
    histories: list[tuple[bytes, list[int]]] = [(b"", []), (b"", []), (b"other", [])]
    requests = []
    for _ in range(num_requests):
        index = rng.randrange(len(histories))
        namespace, history = histories[index]
        if rng.random() < 0.2:
            history = history[: rng.randint(0, len(history))]
        news = rng.randint(1, 40 if rng.random() < 0.1 else 8)
        prompt = history + [rng.randrange(num_values) for _ in range(news)]
        output = [rng.randrange(num_values) for _ in range(rng.choice([0, 0, 1, 5]))]
        name = f"chat {index}"
        requests.append(ask(prompt, output, namespace=namespace, conversation=name))
        histories[index] = (namespace, [] if len(prompt) > 60 else prompt + output)
    return requests
