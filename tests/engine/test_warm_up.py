"""What is compiled before an engine's first step."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import ConfigError
from radixchat.engine.warm_up import warm_up
from radixchat.kernels import ops


@pytest.mark.parametrize("settings", [{}, {"exact": False}, {"exact": False, "weights": "int8"}])
def test_whatever_runs_on_the_cpu_is_compiled_ahead(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact or not: else the first answer would wait for it, and nobody would be told."""
    said: list[str] = []
    monkeypatch.setattr(ops, "warm_up", lambda report: report("compiling"))
    warm_up(EngineConfig(device="cpu", **settings), said.append)
    assert said == ["compiling"]


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is compiled."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="device is 'cuda'"):
        warm_up(EngineConfig(device="cuda"), print)
