"""The model that a benchmark runs on: one that is installed, by name or path, or a clear refusal.

Knows no benchmark. What must not cost a measurement anything, the first use of every shape, is paid
by `warm_up`.
"""

from __future__ import annotations

import random
from pathlib import Path

import click

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_store import ModelStore
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint, load_checkpoint

_DEFAULT = EngineConfig()  # what a user gets


def find_model(name: str) -> Path:
    """Where an installed model lies; raises click.ClickException that says what to do."""
    try:
        path = ModelStore.default().find(name)
    except ModelLoadError as error:
        raise click.ClickException(str(error)) from error
    if path is None:
        raise click.ClickException(f"{name} is not installed: radixchat models pull {name}")
    return path


def load_model(name: str, config: EngineConfig = _DEFAULT) -> Checkpoint:
    """The checkpoint of an installed model, as an engine with `config` computes with it.

    Raises click.ClickException that says what to do, and ConfigError.
    """
    arithmetic = config.arithmetic()
    try:
        return load_checkpoint(find_model(name), arithmetic.dtype, arithmetic.weights)
    except ModelLoadError as error:
        raise click.ClickException(str(error)) from error


def greedy(max_tokens: int) -> SamplingParams:
    """An answer of so many tokens, the same ones whenever it is asked for."""
    return SamplingParams(temperature=0, max_tokens=max_tokens)


def random_tokens(rng: random.Random, vocab_size: int, count: int) -> list[int]:
    """A text that nobody has sent before; what it says makes no step faster or slower."""
    return [rng.randrange(vocab_size) for _ in range(count)]


def warm_up(engine: Engine) -> None:
    """Compute whole steps, mixed ones and single tokens, then forget them."""
    rng = random.Random(0)
    length = min(2 * engine.plan.max_step_tokens, 128, engine.plan.max_tokens // 4)
    for number in range(3):
        prompt = random_tokens(rng, engine.plan.vocab_size, length)
        engine.submit(Request(-1 - number, prompt, greedy(4)))
    while engine.has_work:
        engine.step()
    engine.cache.flush()
