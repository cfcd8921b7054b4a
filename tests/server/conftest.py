"""The tiny model as a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.tests.tiny_model import tiny_model_directory


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model as a folder that `--model` takes."""
    return tiny_model_directory(tmp_path_factory.mktemp("tiny"))
