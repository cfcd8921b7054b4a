"""A try of this machine: two turns of a very small model of random weights, through a whole engine.

Says whether the arithmetic is exact here, and whether a second turn finds the first one in the
cache. Loads no weight from a file, and knows no text.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import torch

from radixchat.engine.config import EngineConfig, EnginePlan
from radixchat.engine.engine import Engine
from radixchat.engine.model import Decoder
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.request import Request, TokenEvent, Usage
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weight_shapes import weight_shapes
from radixchat.engine.weights import Checkpoint, inspect_checkpoint
from radixchat.kernels import ops

_MODEL = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=256,
    max_position=512,
    rms_eps=1e-5,
    rope_theta=10000.0,
    tied_embeddings=True,
)
_ANSWER = SamplingParams(temperature=0, max_tokens=8)
_TURN = 50  # tokens that a user says: several pages of the cache, and a part of one


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it.

    inexact: what differed where the same bits should be, in words; None: nothing did. input_tokens,
    cached_tokens: of the second turn. reusable_tokens: what it should have found. is_same_answer:
    with nothing cached the second answer has the same tokens.
    """

    inexact: str | None
    input_tokens: int
    cached_tokens: int
    reusable_tokens: int
    is_same_answer: bool


def plan_for(model: Path | None, config: EngineConfig) -> EnginePlan:
    """What an engine would run with, from the model's headers; None: the model of the trial.

    Raises ModelLoadError and ConfigError, as loading it would.
    """
    return config.resolve(_MODEL if model is None else inspect_checkpoint(model))


def try_engine(threads: int | None = None) -> Trial:
    """Compute the two turns on the CPU, the second with the first one cached and without.

    threads: None for all cores.
    """
    checkpoint = _checkpoint()
    config = EngineConfig(pool_tokens=1024, threads=threads, device="cpu")
    rng = random.Random(1)
    first, second = ([rng.randrange(_MODEL.vocab_size) for _ in range(_TURN)] for _ in range(2))

    engine = Engine(checkpoint, config)
    answer, _ = _answered(engine, first)
    history = [*first, *answer]
    reused, usage = _answered(engine, [*history, *second])
    computed, _ = _answered(engine, [*history, *second], namespace=b"nobody was here before")
    plan = engine.plan
    decoder = Decoder(
        _MODEL, checkpoint.tensors, plan.max_tokens, exact=True, threads=plan.threads, device="cpu"
    )
    return Trial(
        inexact=decoder.inexactness(torch.float32, plan.page_size),
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        # The last token of an answer is sampled, and never computed.
        reusable_tokens=len(history) - 1,
        is_same_answer=reused == computed,
    )


def _answered(engine: Engine, prompt: list[int], namespace: bytes = b"") -> tuple[list[int], Usage]:
    """The tokens of the answer, and what it cost. Raises the error that it failed with."""
    engine.submit(Request(0, list(prompt), _ANSWER, namespace=namespace))
    tokens = []
    while engine.has_work:
        for event in engine.step():
            tokens += [] if event.token is None else [event.token]
            if event.finish is not None:
                return tokens, _usage(event)
    raise AssertionError("a request ended without its last event")


def _usage(event: TokenEvent) -> Usage:
    if event.error is not None:
        raise event.error
    assert event.usage is not None, "the last event of a request has it"
    return event.usage


def _checkpoint() -> Checkpoint:
    """Random weights, the same ones every time, as they are computed with on the CPU."""
    generator = torch.Generator().manual_seed(1)
    tensors: dict[str, ops.Matrix] = {}
    for name, shape in weight_shapes(_MODEL).items():
        values = torch.randn(*shape, generator=generator) * 0.2
        tensors[name] = 1 + values if len(shape) == 1 else ops.pack_fp32(values)
    return Checkpoint(_MODEL, tensors, None, "trial")
