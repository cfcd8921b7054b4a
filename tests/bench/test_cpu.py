"""`radixchat bench cpu`: the arms in turn, a table, JSON, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from radixchat.bench import cpu, cpu_peer, cpu_start
from radixchat.bench.bench_model import load_model
from radixchat.bench.chat import run_turn
from radixchat.bench.cpu import main
from radixchat.bench.cpu_arm import ArmFailed, ArmInfo
from radixchat.bench.cpu_bandwidth import measure
from radixchat.bench.cpu_load import QUICK
from radixchat.bench.cpu_result import LLAMA_CPP, NO_EXACT, OURS, CpuResult
from radixchat.bench.cpu_start import StartArm, our_start
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.prompt import ChatMessage


def peer_python() -> str | None:
    """A Python with llama_cpp: the variable's, or this one; None: there is none."""
    python = os.environ.get("RADIXCHAT_PEER_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", "import llama_cpp"], capture_output=True, check=False)
    return python if found.returncode == 0 else None


def printed(model: Path, *arguments: str) -> list[str]:
    """The lines of a quick run that succeeds."""
    quick = ["--quick", "--json", "--model", str(model), "--threads", "1", "--repeats", "1"]
    done = CliRunner().invoke(main, [*quick, *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    lines: list[str] = done.stdout.splitlines()
    return lines


@pytest.fixture(scope="module")
def output(tiny_path: Path) -> list[str]:
    """What a quick run of two parts prints, beside ours without exactness."""
    return printed(tiny_path, "--peer", NO_EXACT, "--only", "decode,prefill")


@pytest.fixture(scope="module")
def document(output: list[str]) -> Any:
    """Its last line."""
    return json.loads(output[-1])


def test_each_load_that_was_asked_for_is_in_the_table_and_in_the_json(
    output: list[str], document: Any
) -> None:
    """With both arms, and no load of another part; the last line is one JSON object."""
    assert document["bench"] == "cpu"
    assert {"commit", "machine", "load", "model", "seed", "config"} <= document.keys()
    loads = [load for load in QUICK.loads if load.part in ("decode", "prefill")]
    assert document["loads"].keys() == {load.key for load in loads}
    for load in loads:
        assert any(line.startswith(load.name) for line in output)
        for arm in (OURS, NO_EXACT):
            assert document["loads"][load.key][arm]["tokens_per_second"] > 0
    assert document["arms"][NO_EXACT]["about"] != document["arms"][OURS]["about"]
    assert document["bandwidth_gb_per_s"] > 0
    assert document["start_s"] == {}


@pytest.mark.slow
def test_a_start_is_measured(tiny_path: Path) -> None:
    """Of ours; without exactness it is the same."""
    document = json.loads(printed(tiny_path, "--peer", NO_EXACT, "--only", "start")[-1])
    assert document["loads"] == {}
    assert document["start_s"].keys() == {OURS}
    assert len(document["start_s"][OURS]["all"]) == QUICK.starts
    assert document["start_s"][OURS]["median"] > 0


def test_a_quick_run_judges_nothing(output: list[str], document: Any) -> None:
    """Its loads are not those of the goals."""
    assert document["goals"] == []
    assert not any(line.startswith(("T1", "T5", "L8")) for line in output)


def test_a_floor_that_is_missed_fails_the_command(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the JSON, which tells it too; a quick run is not judged."""
    slow = CpuResult({OURS: ArmInfo("", 1, 1, 1)}, {}, {OURS: (7.0,)}, 1e9)
    monkeypatch.setattr(cpu, "run", lambda *_: slow)
    arguments = ["--json", "--model", str(tiny_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert "Error: below the floor: L8" in done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert [(each["goal"], each["reached"]) for each in document["goals"]] == [("L8", "missed")]
    assert CliRunner().invoke(main, [*arguments, "--quick"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "decode,speed"], "'speed' is not one of decode, prefill, together, start"),
        (["--model", "someone/nothing"], "radixchat models pull someone/nothing"),
        (["--peer", "vllm"], "'vllm' is not one of 'llama-cpp', 'no-exact'"),
    ],
)
def test_what_it_refuses(arguments: list[str], says: str) -> None:
    """With the value and what would do."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert says in done.output


def test_the_peer_needs_a_file_of_its_format(tiny_path: Path) -> None:
    """A folder is refused before anything is measured."""
    done = CliRunner().invoke(main, ["--peer", LLAMA_CPP, "--model", str(tiny_path)])
    assert done.exit_code == 1
    assert "llama-cpp reads .gguf files" in done.output


def test_a_start_ends_at_the_first_byte(tmp_path: Path) -> None:
    """What comes later does not count, but it is waited for."""
    done = tmp_path / "done"
    script = (
        "import pathlib, sys, time; print(1, flush=True); time.sleep(0.5);"
        f" pathlib.Path({str(done)!r}).touch()"
    )
    assert StartArm("x", (sys.executable, "-c", script)).seconds() > 0
    assert done.exists()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("pass", "x ended with status 0"),
        ("import sys; print(1, flush=True); sys.exit('broken')", "x ended with status 1: 1 broken"),
    ],
)
def test_a_start_without_a_token_is_told(script: str, says: str) -> None:
    """So is one that fails afterwards."""
    with pytest.raises(ArmFailed, match=says):
        StartArm("x", (sys.executable, "-c", script)).seconds()


def test_our_start_leaves_the_users_files_alone(tmp_path: Path) -> None:
    """Its files are in the folder that it is given."""
    arm = our_start(OURS, "model.gguf", 2, tmp_path)
    assert arm.environment is not None
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        assert Path(arm.environment[f"RADIXCHAT_{name}_DIR"]).parent == tmp_path
    assert arm.command[-1] == cpu_start.QUESTION


def test_more_bandwidth_than_nothing() -> None:
    """In bytes a second."""
    assert measure(1, 2**20) > 1e6


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.model
def test_the_peer_runs_beside_ours(default_model: Path) -> None:
    """Each load and a start, where llama-cpp-python is installed."""
    python = peer_python()
    if python is None:
        pytest.skip("llama-cpp-python is not installed; RADIXCHAT_PEER_PYTHON may name a Python")
    arguments = ["--quick", "--json", "--model", str(default_model), "--threads", "1"]
    peer = ["--peer", LLAMA_CPP, "--peer-python", python]
    done = CliRunner().invoke(main, [*arguments, *peer], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    info = document["arms"][LLAMA_CPP]
    assert info["vocab_size"] == document["arms"][OURS]["vocab_size"]
    assert info["kv_bytes_per_token"] == 23040  # fp16, 30 layers, 3 heads of 64
    for key in (load.key for load in QUICK.loads):
        assert document["loads"][key][LLAMA_CPP]["tokens_per_second"] > 0
    assert document["start_s"].keys() == {OURS, LLAMA_CPP}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.model
def test_the_peer_computes_the_same_thing(default_model: Path) -> None:
    """Its next tokens are ours where there is no doubt: in the system message of a chat.

    At the answer's beginning "<" and "The" are 0.24 apart, less than the 8 bits of its activations.
    """
    python = peer_python()
    if python is None:
        pytest.skip("llama-cpp-python is not installed; RADIXCHAT_PEER_PYTHON may name a Python")
    encoder = TemplateEncoder.load(str(default_model))
    question = [ChatMessage("user", "What is the capital of France?")]
    prompt, _ = encoder.begin().turn(question, None)
    engine = Engine(load_model(str(default_model)), EngineConfig(threads=1))
    for length in (8, 20, 33):
        part = prompt[:length]
        command = [python, "-P", cpu_peer.__file__, str(default_model), "1", json.dumps(part)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == {"token": run_turn(engine, part, 1, 0).tokens[0]}
