"""The tiny model as a folder, and the settings of a service over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.server.local import LocalSettings
from radixchat.server.store import Store
from radixchat.tests.tiny_model import tiny_model_directory


@pytest.fixture(scope="session", autouse=True)
def ready(compiled: None) -> None:
    """Nothing is left to compile when a test begins to count its time."""


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model as a folder that `--model` takes."""
    return tiny_model_directory(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def settings(tiny_directory: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_directory), database=tmp_path / "chat.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test's store is."""
    return tmp_path / "s.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """An open store, sound at the end."""
    with Store(path) as store:
        yield store
        assert store.verify() == []
