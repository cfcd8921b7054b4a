"""`bench gpu`: the whole plan in the interpreter, and what it says where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from radixchat.bench.gpu import PARTS, RESULTS, main
from radixchat.bench.gpu_goals import GOALS
from radixchat.bench.gpu_models import file_checkpoint, whole_file
from radixchat.tests.engine.tiny_checkpoints import random_model, write_gguf

ROOT = Path(__file__).resolve().parents[2]
# What a machine with a GPU need not have; without Numba there is no arithmetic of the CPU, though.
ABSENT = ("gguf", "llguidance", "platformdirs", "sqlite_utils", "prompt_toolkit")


def tiny_gguf(folder: Path) -> Path:
    return write_gguf(folder / "tiny.gguf", "llama", random_model("llama"))


def test_without_a_gpu_it_says_what_would_do() -> None:
    """And nothing is measured."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 1
    assert "--dry" in result.output


def test_the_engine_part_runs_dry_on_a_file_in_pieces(tmp_path: Path) -> None:
    """Two models, every load; the JSON comes last and nothing is written."""
    before = sorted(RESULTS.iterdir())
    whole = tiny_gguf(tmp_path).read_bytes()
    pieces = [tmp_path / "part0", tmp_path / "part1"]
    pieces[0].write_bytes(whole[:1000])
    pieces[1].write_bytes(whole[1000:])
    models = [argument for piece in pieces for argument in ("--model", str(piece))]
    result = CliRunner().invoke(main, ["--dry", "--only", "engine", "--json", *models])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output.splitlines()[-1])
    assert set(document["goals"]) == {"G5", "G6"}
    assert document["engine"]["file, exact"]["held"] == 1
    assert document["engine"]["tiny, not ahead"]["held"] == 0
    assert sorted(RESULTS.iterdir()) == before


def test_pieces_are_put_together_in_order_and_go_afterwards(tmp_path: Path) -> None:
    """One piece is the file itself."""
    parts = [tmp_path / name for name in ("b", "a")]
    for part, text in zip(parts, (b"first", b"second"), strict=True):
        part.write_bytes(text)
    with whole_file(parts) as path:
        assert path.read_bytes() == b"firstsecond"
    assert not path.exists()
    with whole_file(parts[:1]) as path:
        assert path == parts[0]


def test_a_file_is_loaded_in_the_precision_that_is_asked_for(tmp_path: Path) -> None:
    """As plain tensors, which a GPU computes with."""
    checkpoint = file_checkpoint([tiny_gguf(tmp_path)], torch.bfloat16)
    assert {t.dtype for t in checkpoint.tensors.values() if isinstance(t, torch.Tensor)} == {
        torch.bfloat16
    }
    assert all(isinstance(t, torch.Tensor) for t in checkpoint.tensors.values())


def checkout_environment(folder: Path, absent: tuple[str, ...]) -> dict[str, str]:
    """Of a process that finds the checkout's packages, and does not find those."""
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {absent}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n",
        encoding="utf-8",
    )
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), ".types"])}


def test_what_a_gpu_machine_lacks_is_not_imported(tmp_path: Path) -> None:
    """Neither by the benchmark nor by the engine."""
    modules = "radixchat.bench.gpu_run, radixchat.engine.engine, radixchat.kernels.gpu_layers"
    done = subprocess.run(
        [sys.executable, "-c", f"import {modules}"],
        cwd=ROOT,
        env=checkout_environment(tmp_path, (*ABSENT, "numba", "llvmlite")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_whole_plan_runs_dry_from_a_checkout(tmp_path: Path) -> None:
    """Every kernel is right, every part is run and every goal has a value."""
    done = subprocess.run(
        [sys.executable, "bench/gpu.py", "--dry", "--json"],
        cwd=ROOT,
        env=checkout_environment(tmp_path, ABSENT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert set(document["goals"]) == set(GOALS)
    assert set(document["seconds"]) == set(PARTS)
    assert document["checks"]
    assert all(check["passed"] for check in document["checks"])
    assert document["engine"]["tiny, Triton"]["held"] == 1
