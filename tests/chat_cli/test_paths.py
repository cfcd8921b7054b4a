"""Paths: the overrides, and who may read what is created."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli import paths
from radixchat.engine.model_store import ModelStore


def test_overrides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RADIXCHAT_CONFIG_DIR and its sisters move the files; ~ is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RADIXCHAT_CONFIG_DIR", "~/here")
    monkeypatch.setenv("RADIXCHAT_DATA_DIR", str(tmp_path / "there"))
    monkeypatch.setenv("RADIXCHAT_STATE_DIR", "~/elsewhere")
    assert paths.history_file() == tmp_path / "elsewhere" / "history"
    assert paths.config_file() == tmp_path / "here" / "config.toml"
    assert paths.database_file() == tmp_path / "there" / "sessions.db"


def test_platform_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without overrides the files are where the platform keeps such files."""
    monkeypatch.delenv("RADIXCHAT_CONFIG_DIR", raising=False)
    monkeypatch.delenv("RADIXCHAT_DATA_DIR", raising=False)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    assert paths.config_file().parts[-2:] == ("radixchat", "config.toml")
    assert paths.database_file().parts[-2:] == ("radixchat", "sessions.db")
    assert paths.history_file().parts[-2:] == ("radixchat", "history")


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each place has one name, and the overrides move it."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    assert paths.places() == {
        "config": paths.config_file(),
        "data": paths.database_file().parent,
        "state": paths.history_file().parent,
        "cache": tmp_path / "cache",
        "database": paths.database_file(),
        "history": paths.history_file(),
    }
    assert ModelStore.default().root.parent == paths.cache_folder()
    monkeypatch.delenv("RADIXCHAT_CACHE_DIR")
    assert ModelStore.default().root.parent == paths.cache_folder()


def test_private_file(tmp_path: Path) -> None:
    """A new file and its folder are the owner's only; what exists keeps its content and mode."""
    path = tmp_path / "a" / "b" / "file"
    paths.private_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_text("kept")
    path.chmod(0o640)
    paths.private_file(path)
    assert path.read_text() == "kept"
    assert path.stat().st_mode & 0o777 == 0o640
