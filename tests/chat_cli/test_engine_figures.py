"""The engine's figures: grouped, with ratios, whatever a server knows and this client does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from radixchat.chat_cli.engine_figures import Value, engine_figures
from radixchat.tests.seeded_bug import SeededBug

STATS: dict[str, Value] = {
    "engine": "512 pages",
    "steps": 14,
    "prompt_tokens": 10_000,
    "cached_tokens": 9_120,
    "step_seconds": 5.722125952008355,
    "requests": 12,
    "pages": 512,
    "pages_free": 392,
}


@dataclass(frozen=True, slots=True)
class Miscount(SeededBug):
    """A bug of chat_cli/engine_figures.py."""

    PACKAGE: ClassVar[str] = "chat_cli"
    ROOT: ClassVar[str] = "engine_figures"


def test_groups() -> None:
    """What belongs together stands together; the ratios come first."""
    assert engine_figures(STATS) == {
        "": {"engine": "512 pages"},
        "cache": {
            "hit rate": "91.2% of the prompts' tokens",
            "pool": "23.4% full: 120 of 512 pages, 392 free",
            "prompt tokens": "10,000",
            "cached tokens": "9,120",
        },
        "answers": {"requests": "12"},
        "work": {"steps": "14", "step seconds": "5.72"},
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cached / asked", "asked / cached"),
        ("used = pages - free", "used = free"),
        ("used / pages", "used / free"),
    ],
)
def test_seeded_bugs_are_seen(old: str, new: str) -> None:
    """A ratio of other numbers is another ratio."""
    root = Miscount(new, "engine_figures", old, new).load_root()
    assert root.engine_figures(STATS)["cache"] != engine_figures(STATS)["cache"]


def test_nothing_is_divided_by_nothing() -> None:
    """Before the first prompt there is no rate."""
    figures = engine_figures({**STATS, "prompt_tokens": 0, "cached_tokens": 0, "pages": 0})
    assert figures["cache"]["hit rate"] == "no prompt yet"
    assert "pool" not in figures["cache"]


def test_what_is_new_is_shown() -> None:
    """A server of a later version has more figures."""
    figures = engine_figures({**STATS, "far_pages": 7, "tier": "disk"})
    assert figures["others"] == {"far pages": "7", "tier": "disk"}


def test_tiers_have_a_group_of_their_own() -> None:
    """Where there are any."""
    assert "below the pool" not in engine_figures(STATS)
    figures = engine_figures({**STATS, "disk_restored_tokens": 1234, "disk_us_per_token": 21.04})
    assert figures["below the pool"] == {
        "tokens from disk": "1,234",
        "us a token from disk": "21",
    }


def test_who_may_not_see_them_is_told_who_may() -> None:
    """A server tells the counters of all its users to its operator only."""
    figures = engine_figures({"server": "ws://host:1", "engine": "512 pages"})
    assert list(figures) == [""]
    assert figures[""]["server"] == "ws://host:1"
    assert "operator" in figures[""]["figures"]
