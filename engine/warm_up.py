"""What an engine needs compiled before its first step. Knows no model and no kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from radixchat.engine.config import EngineConfig
from radixchat.kernels import ops


def warm_up(config: EngineConfig, report: Callable[[str], None]) -> None:
    """Compile it, unless an earlier run has; report gets a line before and one after.

    Without a call the first step does it and says nothing. Raises ConfigError as resolving does.
    """
    # Without exactness, too, INT8 weights and models of transformers run compiled code. Elsewhere
    # Triton compiles what a batch needs.
    if config.arithmetic().device == "cpu":
        ops.warm_up(report)


def compiled_folder() -> Path | None:
    """Where all that a CPU needs is kept; None: the first run has still to compile some of it."""
    return ops.compiled_folder()
