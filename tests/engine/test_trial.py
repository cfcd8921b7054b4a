"""A try of the machine: what it says where all is well, and where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.gpus import gpus, torch_build
from radixchat.engine.model import Decoder
from radixchat.engine.trial import plan_for, try_engine
from radixchat.radix.cache import PrefixCache
from radixchat.tests.tiny_model import endless_model_directory


def test_where_all_is_well() -> None:
    """The second turn finds the first one to the token, and answers as without it."""
    found = try_engine(threads=1)
    assert found.inexact is None
    assert found.cached_tokens == found.reusable_tokens == 57
    assert found.input_tokens == 58 + 50
    assert found.is_same_answer


def test_a_cache_that_finds_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that forgets what was committed makes the second turn compute all of it."""
    monkeypatch.setattr(PrefixCache, "commit", lambda *_: 0)
    found = try_engine(threads=1)
    assert found.cached_tokens < found.reusable_tokens
    assert found.is_same_answer


def test_arithmetic_that_is_not_exact_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of the engine's own test."""
    monkeypatch.setattr(Decoder, "inexactness", lambda *_: "row 3 has other bits")
    assert try_engine(threads=1).inexact == "row 3 has other bits"


def test_the_plan_of_a_model(tmp_path: Path) -> None:
    """From what describes it, or of the trial's own where there is none."""
    config = EngineConfig(device="cpu")
    assert plan_for(None, config).max_position == 512
    folder = endless_model_directory(tmp_path / "tiny", 4096)
    assert plan_for(folder, config).max_position == 4096
    with pytest.raises(ModelLoadError):
        plan_for(tmp_path, config)


def test_gpus_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """None where torch finds none; the build is told in any case."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpus() == ()
    assert torch_build().split()[0] in ("CPU", "CUDA", "ROCm")
