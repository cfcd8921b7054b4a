"""Our arm of `bench cpu`, a process: the engine as the product drives it, but without guesses.

\b
    python -m radixchat.bench.cpu_ours SETTINGS

SETTINGS: a JSON object with `model`, a path, and fields of `EngineConfig`. Guessing is off because
a step must be a token; everything else has the default that a user gets. The protocol is that of
`cpu_arm.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any

from torch import Tensor

from radixchat.bench.bench_model import load_model
from radixchat.bench.cpu_load import Load
from radixchat.engine.collector import GarbageCollector
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.errors import RadixChatError
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint


class OurArm:
    """An engine that is asked for one load after another."""

    def __init__(self, checkpoint: Checkpoint, config: EngineConfig) -> None:
        self.engine = Engine(checkpoint, config)
        self._weight_bytes = read_bytes(checkpoint)
        self._next_id = 0

    def info(self) -> dict[str, object]:
        """The fields of ArmInfo."""
        plan = self.engine.plan
        return {
            "about": f"radixchat {version('radixchat')}, {plan.threads} threads, {plan.arithmetic}",
            "vocab_size": plan.vocab_size,
            "weight_bytes": self._weight_bytes,
            "kv_bytes_per_token": plan.kv_bytes_per_token,
        }

    def measure(self, load: Load, prompts: list[list[int]], steps: int) -> list[float]:
        """Seconds, as ArmProcess.measure says. Raises RadixChatError where it does not fit."""
        if load.kind == "prefill":
            self.engine.cache.flush()
        with GarbageCollector() as collector:  # else it stops a step in the middle
            began = time.perf_counter()
            requests = [self._submit(prompt) for prompt in prompts]
            while any(request.num_output == 0 for request in requests):
                self._step()
            seconds = [time.perf_counter() - began]
            if load.kind == "decode":
                seconds = []
                for _ in range(steps):
                    began = time.perf_counter()
                    tokens = self._step()
                    seconds.append(time.perf_counter() - began)
                    assert tokens == load.batch, "a step gives each answer one token"
                    collector.after_step()
        for request in requests:
            self.engine.cancel(request.id)
        while self.engine.has_work:
            self.engine.step()
        return seconds

    def _submit(self, prompt: list[int]) -> Request:
        request = Request(self._next_id, list(prompt), SamplingParams(temperature=0))
        self._next_id += 1
        self.engine.submit(request)
        return request

    def _step(self) -> int:
        """How many tokens it gave; an error of a request is raised."""
        tokens = 0
        for event in self.engine.step():
            if event.error is not None:
                raise event.error
            assert event.finish is None, "the context is long enough"
            if event.token is not None:
                tokens += 1
        return tokens


def read_bytes(checkpoint: Checkpoint) -> int:
    """Bytes of all weights of which a decode step reads every one.

    Of an embedding that is not the head, too, it needs a row only.
    """
    tensors = dict(checkpoint.tensors)
    if "lm_head.weight" in tensors:
        del tensors["embed_tokens.weight"]
    return sum(
        matrix.nbytes if isinstance(matrix, Tensor) else matrix.num_bytes
        for matrix in tensors.values()
    )


def main() -> None:
    """Load, then answer line by line until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    settings: dict[str, Any] = json.loads(sys.argv[1])
    try:
        model = settings.pop("model")
        config = EngineConfig(device="cpu", max_draft_tokens=0, **settings)
        arm = OurArm(load_model(model, config), config)
        answer(**arm.info())
        for line in sys.stdin:
            request = json.loads(line)
            load = Load(**request["load"])
            answer(seconds=arm.measure(load, request["prompts"], request["steps"]))
    except RadixChatError as error:
        answer(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
