"""A new file: private, whole, or not there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.server.new_file import new_file


def test_it_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    """And is readable by its owner only."""
    path = tmp_path / "new"
    with new_file(path) as unfinished:
        assert not path.exists()
        unfinished.write_text("content")
    assert path.read_text() == "content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor its beginning."""

    def fail() -> None:
        with new_file(tmp_path / "new") as unfinished:
            unfinished.write_text("half")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    """Not even what comes to exist meanwhile, nor a link to nowhere."""
    path, link = tmp_path / "old", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(StoreError, match="exists already"), new_file(taken):
            pass
    late = tmp_path / "late"

    def be_too_late() -> None:
        with new_file(late) as unfinished:
            unfinished.write_text("new")
            late.write_text("theirs")

    with pytest.raises(StoreError, match="exists already"):
        be_too_late()
    assert (path.read_text(), late.read_text()) == ("old", "theirs")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_missing_folder(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(StoreError, match="its folder is missing"), new_file(tmp_path / "a" / "b"):
        pass
