"""A time for people, in a unit that suits. Knows nothing of what takes so long."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """`40 ms`, `2.1 s`, `35 s`, `4 min`; at least a millisecond."""
    seconds = milliseconds / 1000
    if seconds < 0.9995:
        return f"{max(1, round(milliseconds)):d} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 99.5 else f"{seconds / 60:.0f} min"
