"""A folder that only transformers knows, loaded as any other, and requests side by side on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from radixchat.engine.errors import ConfigError, ModelLoadError
from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint, inspect_checkpoint, load_checkpoint
from radixchat.tests.engine.driver import Outcome, greedy, make_engine, prompt, run
from radixchat.tests.tiny_neox import CONFIG, tiny_neox_directory


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny GPT-NeoX."""
    return tiny_neox_directory(tmp_path_factory.mktemp("neox"))


@pytest.fixture(scope="module")
def neox(folder: Path) -> Checkpoint:
    """The same, loaded."""
    return load_checkpoint(folder)


def test_the_checkpoint_carries_the_module(folder: Path, neox: Checkpoint) -> None:
    """Instead of tensors, in the type that was asked for, whatever the weights are to become."""
    assert type(neox.module).__name__ == "GPTNeoXForCausalLM"
    assert neox.tensors == {}
    assert neox.config.architecture == CONFIG["architectures"][0]
    assert neox.config.by_transformers
    assert (neox.weights, neox.dtype) == ("fp32", torch.float32)
    assert inspect_checkpoint(folder) == neox.config
    assert load_checkpoint(folder, weights="auto").weights == "fp32"
    half = load_checkpoint(folder, torch.bfloat16)
    assert (half.weights, half.dtype) == ("bf16", torch.bfloat16)
    with pytest.raises(ConfigError, match="weights is 'int8', but the model in"):
        load_checkpoint(folder, weights="int8")


def test_the_fingerprint_is_that_of_the_weights(
    folder: Path, neox: Checkpoint, tmp_path: Path
) -> None:
    """Not of the place; other weights of the same shape and another config have others."""
    assert load_checkpoint(shutil.copytree(folder, tmp_path / "copy")).fingerprint == (
        neox.fingerprint
    )
    seeds = load_checkpoint(tiny_neox_directory(tmp_path / "seed", seed=1)).fingerprint
    changed = load_checkpoint(tiny_neox_directory(tmp_path / "b", rotary_pct=0.5)).fingerprint
    assert len({neox.fingerprint, seeds, changed}) == 3


@pytest.mark.parametrize(
    ("length", "message"), [(None, "neither model.safetensors nor"), (100, "is damaged")]
)
def test_weights_that_are_not_whole_are_named(
    tmp_path: Path, length: int | None, message: str
) -> None:
    """By loading and by looking alike."""
    file = tiny_neox_directory(tmp_path) / "model.safetensors"
    content = file.read_bytes()
    file.unlink()
    if length is not None:
        file.write_bytes(content[:length])
    for load in (load_checkpoint, inspect_checkpoint):
        with pytest.raises(ModelLoadError, match=message):
            load(tmp_path)


@pytest.mark.parametrize("kv", ["auto", "int8"])
def test_requests_side_by_side_are_answered_as_alone(neox: Checkpoint, kv: str) -> None:
    """Chunks, shared prefixes, guessed tokens and preemptions in a pool that is too small."""
    shared = prompt(40)
    prompts = [shared + prompt(20 + i, seed=i + 1) * (1 + i % 2) for i in range(6)]

    def requests() -> list[Request]:
        return [Request(i, list(tokens), greedy(24)) for i, tokens in enumerate(prompts)]

    engine = make_engine(
        neox, kv=kv, page_size=8, pool_tokens=256, max_step_tokens=32, max_mixed_tokens=32
    )
    together = run(engine, requests())
    alone: dict[int, Outcome] = {}
    for request in requests():
        plain = make_engine(neox, kv=kv, prefix_cache=False, max_draft_tokens=0)
        alone |= run(plain, [request])
    assert {i: o.tokens for i, o in together.items()} == {i: o.tokens for i, o in alone.items()}
    usages = [outcome.usage for outcome in together.values() if outcome.usage is not None]
    assert len(usages) == len(prompts)
    assert sum(usage.cached_tokens for usage in usages) > 0
    stats = engine.snapshot().counters
    assert stats.preemptions > 0
