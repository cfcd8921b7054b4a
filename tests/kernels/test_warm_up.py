"""The first run: compiles all that later ones need, once, and says so."""

from __future__ import annotations

import fcntl
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from numba.core.dispatcher import Dispatcher

from radixchat.engine.block_formats import SUPPORTED_KINDS, block_sizes
from radixchat.engine.weights import load_checkpoint
from radixchat.kernels import ops, warm_up
from radixchat.kernels.warm_up import compile_once
from radixchat.tests.engine.driver import answer, greedy, make_engine, prompt
from radixchat.tests.engine.tiny_checkpoints import random_model, write_gguf


def compiled() -> dict[str, set[Any]]:
    """What every CPU kernel has been compiled for in this process."""
    return {
        f"{name}.{attribute}": set(kernel.signatures)
        for name, module in sys.modules.items()
        if name.startswith("radixchat.kernels.cpu_")
        for attribute, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
    }


def test_it_speaks_the_first_time_only(tmp_path: Path) -> None:
    """A line before, since it takes long, and one after; then never again."""
    lines: list[str] = []
    for _ in range(2):
        compile_once(tmp_path / "stamp", lines.append)
        assert len(lines) == 2
    assert lines[0].startswith("compiling kernels for this CPU, once")
    assert lines[1].startswith("compiled in ")


def test_where_nothing_can_be_kept_it_says_so(tmp_path: Path) -> None:
    """Without a folder, and in one that cannot be written to, the next start begins again."""
    lines: list[str] = []
    compile_once(None, lines.append)
    assert lines[1].endswith("; there is no folder to keep them in")
    for _ in range(2):
        compile_once(tmp_path / "absent" / "stamp", lines.append)
    assert len(lines) == 6


def test_of_two_processes_one_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other says that it waits, finds everything compiled, and does not claim to have."""
    runs, lines = list[None](), list[str]()
    monkeypatch.setattr(warm_up, "_run_everything", lambda: runs.append(None))
    stamp = tmp_path / "stamp"
    other = threading.Thread(target=warm_up.compile_once, args=(stamp, lines.append))
    with stamp.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other.start()
        other.join(0.2)
        assert other.is_alive()
        assert len(lines) == 1
        stamp.touch()
    other.join(10)
    assert lines == [
        "another process is compiling kernels for this CPU: waiting for it …",
        "another process has compiled the kernels for this CPU",
    ]
    assert not runs


def test_a_process_that_waited_in_vain_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one it waited for has ended without: then it says that it compiles, too."""
    runs, lines = list[None](), list[str]()
    monkeypatch.setattr(warm_up, "_run_everything", lambda: runs.append(None))
    stamp = tmp_path / "stamp"
    other = threading.Thread(target=warm_up.compile_once, args=(stamp, lines.append))
    with stamp.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other.start()
        other.join(0.2)
    other.join(10)
    assert [line.split()[0] for line in lines] == ["another", "compiling", "compiled"]
    assert len(runs) == 1
    assert stamp.exists()


def test_nothing_is_left_to_compile_for_a_real_model(tmp_path: Path) -> None:
    """Weights in every format, both KV formats, one thread and two, prompts and decoding."""
    compile_once(None, lambda _: None)
    before = compiled()
    assert len(before) > 5
    # A second one is compiled in vain, for a number that is known beforehand or unsigned.
    assert {name: kinds for name, kinds in before.items() if len(kinds) > 1} == {}
    tokens = [token % 96 for token in prompt(40)]
    model = random_model("qwen2", intermediate_size=160)
    model.save_pretrained(tmp_path / "folder")
    for kind in ("Q4_1", "Q4_0", "Q8_0", "Q5_1"):
        path = write_gguf(tmp_path / f"{kind}.gguf", "qwen2", model, kind=kind)
        engine = make_engine(load_checkpoint(path, weights="auto"), kv="int8", threads=2)
        answer(engine, tokens, greedy(3))
    for kind in SUPPORTED_KINDS:
        blocks = torch.zeros(33, 2, block_sizes(kind)[1], dtype=torch.uint8)
        ops.unpack(ops.pack_blocks(kind, blocks))
    for weights in ("fp32", "auto", "int8"):
        engine = make_engine(load_checkpoint(tmp_path / "folder", weights=weights))
        answer(engine, tokens, greedy(3))
    assert compiled() == before
