"""The tiny model as a folder, and the settings of a service over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.tiny_model import tiny_model_directory


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model as a folder that `--model` takes."""
    return tiny_model_directory(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def settings(tiny_directory: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_directory), database=tmp_path / "chat.db")
