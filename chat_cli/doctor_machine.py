"""What the machine can do: processor, cores, memory, room on disk. Linux tells most of it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from radixchat.chat_cli.checkup import Problem, Section, shown_bytes, shown_path

# Those that decide which code runs, or how fast.
_FEATURES = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16",
    "amx_tile", "amx_int8", "asimd", "asimddp", "sve",
)  # fmt: skip
_CPUINFO, _MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")
_LITTLE_ROOM = 256 << 20
_LITTLE_MEMORY = 1 << 30


def machine(folders: Mapping[str, Path]) -> Section:
    """folders: those that grow, by name, whether they exist yet or not."""
    from radixchat.engine.cores import usable_cores

    facts, problems = dict[str, str](), list[Problem]()
    processor = _fields(_CPUINFO)
    facts["processor"] = processor.get("model name") or platform.processor() or platform.machine()
    flags = set((processor.get("flags") or processor.get("Features") or "").split())
    facts["features"] = " ".join(name for name in _FEATURES if name in flags) or "unknown"
    facts["cores"] = f"{usable_cores()} to be used, of {os.cpu_count() or 'unknown'}"
    memory = _fields(_MEMINFO)
    total, free = (_kibibytes(memory.get(name, "")) for name in ("MemTotal", "MemAvailable"))
    total = total or _physical_memory()
    if total is not None:
        told = "" if free is None else f", {shown_bytes(free)} free"
        facts["memory"] = shown_bytes(total) + told
    if free is not None and free < _LITTLE_MEMORY:
        problems.append(
            Problem(
                f"only {shown_bytes(free)} of memory are free",
                "end what needs it, or give the cache less: --pool-tokens with a smaller number",
            )
        )
    for name, folder in folders.items():
        room = _room(folder)
        facts[f"room, {name}"] = "unknown" if room is None else f"{shown_bytes(room)} free"
        if room is not None and room < _LITTLE_ROOM:
            what = f"only {shown_bytes(room)} are free where {shown_path(folder)} lies"
            problems.append(Problem(what, "delete what is not needed there"))
    return Section("machine", facts, problems)


def _fields(path: Path) -> dict[str, str]:
    """`name: value` lines of a file of /proc; of a name that comes often the first."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    return found


def _kibibytes(text: str) -> int | None:
    number = re.match(r"(\d+) kB", text)
    return None if number is None else int(number[1]) << 10


def _physical_memory() -> int | None:
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _room(folder: Path) -> int | None:
    """Bytes free where the folder lies, or would lie."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None
