"""Compiled kernels on disk: found again, and never in the way, whatever happens to their files."""

from __future__ import annotations

import os
import resource
import warnings
from pathlib import Path
from typing import Any

import pytest

from radixchat.kernels import cpu_jit
from radixchat.kernels.cpu_entry import entry


def twice(x: int) -> int:
    return 2 * x


def nothing(x: int) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels are kept for the test."""
    monkeypatch.setattr(cpu_jit, "cache_folder", lambda: tmp_path)
    return tmp_path


def written(folder: Path) -> dict[Path, int]:
    """The files in the folder and when each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


def compile_both() -> int:
    """A function called from Python and one called by its address, as a new process would."""
    assert entry(nothing, 1).address
    result: int = cpu_jit.jit(twice)(21)
    return result


def test_what_was_compiled_is_found_again(folder: Path) -> None:
    """An index and code of each function; the second time nothing is written."""
    assert compile_both() == 42
    before = written(folder)
    assert sorted(path.suffix for path in before) == [".nbc", ".nbc", ".nbi", ".nbi"]
    assert compile_both() == 42
    assert written(folder) == before


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 40])
def test_a_damaged_file_is_said_once(folder: Path, suffix: str, left: int) -> None:
    """It is compiled again and kept again: the third process finds it."""
    compile_both()
    for path in folder.rglob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:left])
    with pytest.warns(UserWarning, match=f"a kernel kept in {folder}.* cannot be read"):
        assert compile_both() == 42
    before = written(folder)
    assert compile_both() == 42
    assert written(folder) == before


def test_a_kernel_that_cannot_be_kept_is_said_and_runs(folder: Path) -> None:
    """As on a full disk; as soon as there is room it is kept."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.warns(UserWarning, match=f"no kernel can be kept in {folder}.*too large"):
            assert compile_both() == 42
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert compile_both() == 42
    assert len(written(folder)) == 4


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kernels' sources are, with no folder beside them to keep anything in."""
    monkeypatch.setattr(cpu_jit, "__file__", str(tmp_path / "cpu_jit.py"))
    (tmp_path / "__pycache__").touch()
    return tmp_path


def find() -> Path | None:
    """The folder, found as a new process finds it."""
    return cpu_jit.cache_folder.__wrapped__()


def test_without_a_folder_beside_them_the_user_has_one(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where that cannot be written to either, or there is no home, there is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(sources / "cache"))
    found = find()
    assert found is not None
    assert found.parent == sources / "cache" / "radixchat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(sources / "__pycache__"))
    assert find() is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert find() is None


def test_a_complete_folder_may_be_read_only(
    sources: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in an image that runs as another user; one that lacks something is left alone."""
    (sources / "__pycache__").unlink()
    folder = find()
    assert folder is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, _: path != folder and path.exists())
    assert find() not in (folder, None)
    (folder / cpu_jit.COMPLETE).touch()
    assert find() == folder


def test_looking_for_a_complete_folder_makes_none(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told only when everything is there, wherever that is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(sources / "cache"))
    assert cpu_jit.complete_folder() is None
    assert not (sources / "cache").exists()
    folder = find()
    assert folder is not None
    assert cpu_jit.complete_folder() is None
    (folder / cpu_jit.COMPLETE).touch()
    assert cpu_jit.complete_folder() == folder


def homeless() -> Any:
    raise RuntimeError("Could not determine home directory.")


def test_the_folder_is_another_when_a_source_is(tmp_path: Path, sources: Path) -> None:
    """Numba would go on with what it compiled of a function that calls the changed one."""
    (sources / "__pycache__").unlink()
    first = find()
    (tmp_path / "cpu_one.py").touch()
    second = find()
    (tmp_path / "cpu_one.py").write_text("a = 1\n")
    assert len({first, second, find(), None}) == 4
    assert find() == find()


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor said: the first run has said it."""
    monkeypatch.setattr(cpu_jit, "cache_folder", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_both() == 42
