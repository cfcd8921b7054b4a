"""The benchmarks run, and say what they claim to measure."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from radixchat.bench.chat import main
from radixchat.tests.tiny_model import tiny_model_directory


def test_the_chat_bench_caches_what_its_oracle_says(tmp_path: Path) -> None:
    """Its last line is one JSON object; each turn's cached tokens are the oracle's."""
    model = tiny_model_directory(tmp_path / "tiny")
    arguments = ["--model", str(model), "--turns", "4", "--new-tokens", "30", "--answer", "5"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output.splitlines()[-1])
    assert f", load {report['load']:.2f}, seed 0\n" in done.output
    turns = report["per_turn"]
    assert [turn["prompt_tokens"] for turn in turns] == [30, 65, 100, 135]
    assert [turn["cached_tokens"] for turn in turns] == [0, 34, 69, 104]
    assert all(turn["cached_tokens"] == turn["oracle_tokens"] for turn in turns)


def test_a_model_that_is_not_there_is_named() -> None:
    """And how to fetch it."""
    done = CliRunner().invoke(main, ["--model", "someone/nothing"])
    assert done.exit_code == 1
    assert "radixchat models pull someone/nothing" in done.output
