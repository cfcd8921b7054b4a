"""How many CPU cores this process really has: its affinity, and its control groups' quotas.

A container often sees all cores of its host and may use the time of two. Threads beyond that are
stopped in the middle of a step, and all others wait for them. Knows no engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores this process may run on at the same time, at least one."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota(_PROC, _MOUNT)
    return cores if quota is None else max(1, min(cores, round(quota)))


def cpu_quota(memberships: Path, mount: Path) -> float | None:
    """Cores' worth of time that the control groups grant, None if they set no bound.

    memberships: what Linux shows as /proc/self/cgroup. mount: where the hierarchies are mounted.
    Versions 1 and 2; a group is bound by those above it, too.
    """
    quotas = (_quota(folder) for folder in _groups(memberships, mount))
    return min((quota for quota in quotas if quota is not None), default=None)


def _groups(memberships: Path, mount: Path) -> Iterator[Path]:
    """Folders of this process's groups, and of those above, that have to do with CPU time.

    In a container the path may be the host's, which is not mounted: then only the root exists,
    and that is the container's own.
    """
    try:
        lines = memberships.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        # Version 2 has one hierarchy; version 1 one per set of controllers, named for it.
        for root in (mount, mount / "unified") if number == "0" else _roots(mount, controllers):
            group = root.joinpath(path.strip("/"))
            yield from (group, *(above for above in group.parents if above.is_relative_to(root)))


def _roots(mount: Path, controllers: str) -> tuple[Path, ...]:
    return mount / "cpu", mount / controllers


def _quota(group: Path) -> float | None:
    """Cores that one group grants: quota / period, both in µs."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (group / "cpu.cfs_period_us").read_text(encoding="ascii")
        # "max" in version 2, -1 in version 1: no bound.
        return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
