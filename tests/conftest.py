"""What every test runs under. Knows no test."""

from __future__ import annotations

import os
import signal

# Triton decides between interpreter and compiler when a kernel module is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")
# As the command line does, and for its reason: torch's threads must not spin on a busy machine.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# The folder of models is the user's, and what is computed of them is not to be kept beside them.
os.environ["RADIXCHAT_DISK_CACHE"] = "0"

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from radixchat.engine.model_store import DEFAULT_MODEL, ModelStore

# A shared machine may pause any example for longer than Hypothesis' 200 ms.
settings.register_profile("radixchat", deadline=None)
settings.load_profile("radixchat")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_configure() -> None:
    """Start with the signals of a program that was started normally.

    A shell ignores SIGINT in background jobs, nohup ignores SIGHUP, and children inherit that.
    """
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def compiled() -> None:
    """What a machine's first run compiles for a minute: no test waits for it, or sees it told."""
    from radixchat.engine.config import EngineConfig
    from radixchat.engine.warm_up import warm_up

    warm_up(EngineConfig(device="cpu"), lambda _: None)


@pytest.fixture
def unhurried() -> Iterator[None]:
    """Every step takes 20 ms more: an answer of 300 tokens goes on for 6 s on any machine."""
    from radixchat.tests.slow_steps import slowed  # not every test waits for the engine's imports

    with slowed(0.02):
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared chats and templates, beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no shared data at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def shared_chats(shared_data: Path) -> Callable[[str], Iterator[dict[str, Any]]]:
    """Reads one of the shared chat files, a chat at a time."""

    def read(name: str) -> Iterator[dict[str, Any]]:
        with lzma.open(shared_data / "chat" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    return read


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model's file; `make test` fetches it first."""
    path = ModelStore.default().find(DEFAULT_MODEL)
    if path is None:
        pytest.skip(f"{DEFAULT_MODEL} is not installed: radixchat models pull {DEFAULT_MODEL}")
    return path
