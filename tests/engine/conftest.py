"""The tiny model, loaded once."""

from __future__ import annotations

import pytest

from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.tiny_model import tiny_model_directory


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """The tiny random model, loaded as any model is."""
    return load_checkpoint(tiny_model_directory(tmp_path_factory.mktemp("tiny")))
