"""The engine's figures for people: in groups, with the ratios that say more than two numbers.

Knows the names that the service and a server have for them; what is new to it is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Value = int | float | str

# Group, name, and how it is called there.
_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "cache": {"prompt_tokens": "prompt tokens", "cached_tokens": "cached tokens"},
        "below the pool": {
            "host_restored_tokens": "tokens from host memory",
            "disk_restored_tokens": "tokens from disk",
            "store_restored_tokens": "tokens from a store",
            "refused_tokens": "tokens computed again",
            "host_pages": "pages in host memory",
            "host_bytes": "bytes in host memory",
            "disk_pages": "pages on disk",
            "disk_bytes": "bytes on disk",
            "disk_problem": "disk",
            "read_pages": "pages read ahead",
            "used_pages": "of these, used",
            "host_us_per_token": "us a token from host memory",
            "disk_us_per_token": "us a token from disk",
            "store_us_per_token": "us a token from a store",
            "prefill_us_per_token": "us a token computed",
        },
        "answers": {
            "requests": "requests",
            "running": "running",
            "waiting": "waiting",
            "cancelled": "cancelled",
            "expired": "out of time",
            "output_tokens": "output tokens",
            "draft_tokens": "guessed tokens",
            "accepted_tokens": "guessed rightly",
        },
        "work": {
            "steps": "steps",
            "computed_tokens": "computed tokens",
            "step_seconds": "step seconds",
            "schedule_seconds": "schedule seconds",
            "preemptions": "preemptions",
            "stalls": "stalls",
        },
    }
)
_POOL = ("pages", "pages_free")
_HEADS = ("server", "engine")


def engine_figures(stats: Mapping[str, Value]) -> Mapping[str, Mapping[str, str]]:
    """Groups by name, with their figures by name, in their order; the first group has no name."""
    groups = {"": {name: figure(stats[name]) for name in _HEADS if name in stats}}
    for group, names in _NAMES.items():
        found = {names[name]: figure(stats[name]) for name in names if name in stats}
        groups[group] = (_ratios(stats) | found) if group == "cache" else found
    known = {*_HEADS, *_POOL, *(name for names in _NAMES.values() for name in names)}
    others = {name: figure(value) for name, value in stats.items() if name not in known}
    groups["others"] = {name.replace("_", " "): value for name, value in others.items()}
    if stats.keys() <= set(_HEADS):
        groups[""]["figures"] = "those of all its users are shown to an operator's key"
    return {group: figures for group, figures in groups.items() if figures}


def figure(value: Value) -> str:
    """A value for people: three digits of a fraction, whole numbers with commas, texts as is."""
    if isinstance(value, str):
        return value
    is_small_fraction = isinstance(value, float) and 0.001 <= abs(value) < 100
    return f"{value:.3g}" if is_small_fraction else f"{value:,.0f}"


def _ratios(stats: Mapping[str, Value]) -> dict[str, str]:
    lines = {}
    asked, cached = stats.get("prompt_tokens"), stats.get("cached_tokens")
    if isinstance(asked, int) and isinstance(cached, int):
        rate = f"{cached / asked:.1%} of the prompts' tokens" if asked else "no prompt yet"
        lines["hit rate"] = rate
    pages, free = (stats.get(name) for name in _POOL)
    if isinstance(pages, int) and isinstance(free, int) and pages:
        used = pages - free
        lines["pool"] = f"{used / pages:.1%} full: {used:,} of {pages:,} pages, {free:,} free"
    return lines
