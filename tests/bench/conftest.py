"""The tiny model, for the benchmarks that run an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.tiny_model import tiny_model_directory


@pytest.fixture(scope="session", autouse=True)
def ready(compiled: None) -> None:
    """Nothing is left to compile when a test begins to count its time."""


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random model, as `--model` takes it."""
    return tiny_model_directory(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Checkpoint:
    """The tiny random model, loaded as any model is."""
    return load_checkpoint(tiny_path)
