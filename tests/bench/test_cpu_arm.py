"""An arm over its pipes: ours on a tiny model, and processes that break the protocol."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.bench import cpu_peer
from radixchat.bench.cpu_arm import ArmFailed, ArmProcess
from radixchat.bench.cpu_load import Load
from radixchat.bench.cpu_ours import OurArm, read_bytes
from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import PromptTooLong
from radixchat.engine.weights import Checkpoint
from radixchat.tests.tiny_model import HEAD_DIM, KV_HEADS, LAYERS, VOCABULARY

HELLO = {"about": "", "vocab_size": 9, "weight_bytes": 1, "kv_bytes_per_token": 1}


def ours(model: Path, **settings: object) -> list[str]:
    document = json.dumps({"model": str(model), "threads": 1, **settings})
    return [sys.executable, "-m", "radixchat.bench.cpu_ours", document]


@pytest.fixture(scope="module")
def arm(tiny_path: Path) -> Iterator[ArmProcess]:
    """Ours in its process."""
    with ArmProcess("ours", ours(tiny_path)) as running:
        yield running


def test_it_says_what_it_is(arm: ArmProcess) -> None:
    """The model's vocabulary, and what a step reads."""
    assert arm.info.vocab_size == VOCABULARY
    assert arm.info.kv_bytes_per_token == 2 * LAYERS * KV_HEADS * HEAD_DIM * 4
    assert arm.info.weight_bytes > VOCABULARY
    assert "exact" in arm.info.about


@pytest.mark.parametrize("load", [Load("decode", 40), Load("decode", 30, 3), Load("prefill", 200)])
def test_it_measures_each_load(arm: ArmProcess, load: Load) -> None:
    """A time a step, or one for a prompt, as often as it is asked."""
    prompts = load.prompts(random.Random(3), VOCABULARY)
    for _ in range(2):
        assert len(arm.measure(load, prompts, 5)) == (1 if load.kind == "prefill" else 5)


def test_a_repeat_finds_its_prompts_and_a_prefill_finds_nothing(tiny: Checkpoint) -> None:
    """Decoding is measured right behind what is cached; what a prompt costs, without a cache."""
    arm = OurArm(tiny, EngineConfig(max_draft_tokens=0, threads=1))
    stats = arm.engine.scheduler.stats
    decode, prefill = Load("decode", 100), Load("prefill", 100)
    prompts = decode.prompts(random.Random(3), VOCABULARY)
    for load, found in ((decode, 0), (decode, 99), (prefill, 0), (prefill, 0)):
        before = stats.cached_tokens
        arm.measure(load, prompts, 2)
        assert stats.cached_tokens - before == found
    assert not arm.engine.has_work


def test_bytes_of_weights_are_those_that_a_step_reads(tiny: Checkpoint) -> None:
    """A tied embedding is the head; one of its own is looked up and not read."""
    everything = sum(4 * math.prod(tensor.shape) for tensor in tiny.tensors.values())
    assert read_bytes(tiny) == everything
    untied = Checkpoint(
        tiny.config,
        {**tiny.tensors, "lm_head.weight": tiny.tensors["embed_tokens.weight"]},
        None,
        "",
    )
    assert read_bytes(untied) == everything


def test_what_does_not_fit_is_said(tiny: Checkpoint, tiny_path: Path) -> None:
    """In the process as an error, over the pipe with the arm's name."""
    load = Load("prefill", 600)
    prompts = load.prompts(random.Random(3), VOCABULARY)
    with pytest.raises(PromptTooLong):
        OurArm(tiny, EngineConfig(threads=1)).measure(load, prompts, 1)
    with (
        ArmProcess("ours", ours(tiny_path)) as arm,
        pytest.raises(ArmFailed, match="ours: the prompt has 600 tokens"),
    ):
        arm.measure(load, prompts, 1)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import sys; sys.exit('no memory left')", "x ended with status 1: no memory left"),
        ("print('loading')", "x wrote 'loading.n', which is no JSON"),
        ('print(\'{"error": "no such model"}\')', "x: no such model"),
    ],
)
def test_what_does_not_start_is_told(script: str, says: str) -> None:
    """With what it said."""
    with pytest.raises(ArmFailed, match=says):
        ArmProcess("x", [sys.executable, "-c", script])


def test_a_command_that_is_not_there() -> None:
    """It is named."""
    with pytest.raises(ArmFailed, match="x: /nowhere/python cannot be run: No such file"):
        ArmProcess("x", ["/nowhere/python"])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"seconds": [0.1]}', r"decode at 16 gave \[0.1\], not 2 times"),
        ('{"seconds": [0.1, 0]}', r"decode at 16 gave \[0.1, 0\]"),
        (None, "x ended with status 0: it said nothing"),
    ],
)
def test_what_an_arm_answers_is_checked(answer: str | None, says: str) -> None:
    """The number of times, and that it is still there."""
    script = f"print({json.dumps(HELLO)!r}, flush=True); input()\n"
    if answer is not None:
        script += f"print({answer!r}, flush=True); input()"
    with (
        ArmProcess("x", [sys.executable, "-c", script]) as arm,
        pytest.raises(ArmFailed, match=says),
    ):
        arm.measure(Load("decode", 16), [[1] * 16], 2)


def test_the_peer_says_how_to_get_it(tmp_path: Path) -> None:
    """In a Python that has no llama_cpp; it needs nothing of radixchat there."""
    (tmp_path / "llama_cpp.py").write_text("raise ImportError('not here')", encoding="utf-8")
    command = [sys.executable, "-P", cpu_peer.__file__, "model.gguf", "1"]
    with pytest.raises(
        ArmFailed, match=r"not here.*pip install 'radixchat\[peer\]'.*--peer-python"
    ):
        ArmProcess("llama-cpp", command, {"PYTHONPATH": str(tmp_path)})
