"""The cores of a process: affinity, and what control groups of both versions grant."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.cores import cpu_quota, usable_cores


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def test_this_machine_has_at_least_one_core() -> None:
    """Whatever the machine, the number is one to start threads with."""
    assert usable_cores() >= 1


@pytest.mark.parametrize(
    ("own", "above", "cores"),
    [
        ("max 100000", "max 100000", None),
        ("200000 100000", "max 100000", 2.0),
        ("400000 100000", "150000 100000", 1.5),
        ("damaged", "max 100000", None),
        ("100000 0", "max 100000", None),
    ],
)
def test_version_two(tmp_path: Path, own: str, above: str, cores: float | None) -> None:
    """A quota in the group or in one above it; "max" and what cannot be read set no bound."""
    _write(tmp_path / "self", "0::/pod/main\n")
    _write(tmp_path / "mount/pod/main/cpu.max", own)
    _write(tmp_path / "mount/pod/cpu.max", above)
    assert cpu_quota(tmp_path / "self", tmp_path / "mount") == cores


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "cores"), [("-1", None), ("50000", 0.5)])
def test_version_one(tmp_path: Path, folder: str, quota: str, cores: float | None) -> None:
    """The hierarchy of the cpu controller, under either of its names."""
    _write(tmp_path / "self", "3:memory:/a\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    _write(tmp_path / f"mount/{folder}/docker/abc/cpu.cfs_quota_us", quota)
    _write(tmp_path / f"mount/{folder}/docker/abc/cpu.cfs_period_us", "100000")
    assert cpu_quota(tmp_path / "self", tmp_path / "mount") == cores


def test_a_path_of_the_host_s_means_the_root(tmp_path: Path) -> None:
    """In a container the groups may be named as outside, and mounted as seen from inside."""
    _write(tmp_path / "self", "1:cpu:/docker/0123\n")
    _write(tmp_path / "mount/cpu/cpu.cfs_quota_us", "300000")
    _write(tmp_path / "mount/cpu/cpu.cfs_period_us", "100000")
    assert cpu_quota(tmp_path / "self", tmp_path / "mount") == 3.0


def test_without_control_groups_there_is_no_bound(tmp_path: Path) -> None:
    """As on other systems than Linux."""
    assert cpu_quota(tmp_path / "self", tmp_path / "mount") is None
