"""Where a measurement comes from."""

from __future__ import annotations

import platform
import re

import pytest

from radixchat.bench.provenance import commit, machine


def test_the_commit_is_short_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkout a few hexadecimal digits; without git it is unknown, and nothing fails."""
    assert re.fullmatch(r"[0-9a-f]{7,12}|unknown", commit())
    monkeypatch.setenv("PATH", "")
    assert commit() == "unknown"


def test_the_machine_is_described_and_not_named() -> None:
    """The kind of machine is told, its name is not."""
    assert f"Python {platform.python_version()}" in machine()
    assert platform.machine() in machine()
    assert platform.node() not in machine().split()
