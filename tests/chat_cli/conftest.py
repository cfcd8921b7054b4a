"""What the client's tests share: a small model, and folders of their own."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.tests.tiny_model import endless_model_directory

KEPT = ("RADIXCHAT_CACHE_DIR", "RADIXCHAT_DISK_CACHE")
CONTEXT = 4096
"""Long enough for an answer that takes seconds: tests interrupt it."""


@pytest.fixture(scope="session")
def tiny_model(compiled: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of random weights that never ends an answer by itself."""
    return endless_model_directory(tmp_path_factory.mktemp("model") / "tiny", CONTEXT)


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """What a chat's loading hides from the garbage collector is not hidden from the next test's."""
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's files, terminal settings or variables."""
    for name in list(os.environ):
        if name.startswith("RADIXCHAT_") and name not in KEPT:
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RADIXCHAT_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("RADIXCHAT_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")
