"""`radixchat bench engine`: arms, options, table and JSON, with a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.engine import arm_config, arm_names, main
from radixchat.bench.engine_mix import QUICK

PERCENTILES = {"n", "mean", "min", "p50", "p90", "p95", "p99", "max"}


def test_ours_always_runs_beside_the_controls_that_are_asked_for() -> None:
    """Both, unless one is named."""
    assert arm_names(None, None) == ["ours", "--cache off", "--policy fcfs"]
    assert arm_names("off", "fcfs") == ["ours", "--cache off", "--policy fcfs"]
    assert arm_names("off", None) == ["ours", "--cache off"]
    assert arm_names(None, "fcfs") == ["ours", "--policy fcfs"]
    assert arm_names("on", "lpm") == ["ours"]


def test_a_control_differs_in_one_setting() -> None:
    """The cache, or the order."""
    ours = arm_config("ours", QUICK, 512)
    assert (ours.prefix_cache, ours.schedule) == (True, "lpm")
    uncached, fcfs = (arm_config(name, QUICK, 512) for name in ("--cache off", "--policy fcfs"))
    assert (uncached.prefix_cache, uncached.schedule) == (False, "lpm")
    assert (fcfs.prefix_cache, fcfs.schedule) == (True, "fcfs")


def test_three_arms_in_one_run(tiny_path: Path, tmp_path: Path) -> None:
    """The last line is JSON with all that was measured; without a cache more is computed."""
    rows = tmp_path / "requests.jsonl"
    arguments = ["--quick", "--json", "--model", str(tiny_path), "--requests", str(rows)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["bench"] == "engine"
    assert {"version", "date", "commit", "machine", "load", "model", "seed"} <= document.keys()
    assert document["config"]["mix"]["conversations"] == QUICK.conversations
    ours, uncached, fcfs = document["arms"]
    assert [arm["name"] for arm in document["arms"]] == ["ours", "--cache off", "--policy fcfs"]
    for arm in document["arms"]:
        for times in ("ttft_ms", "itl_ms", "queue_ms", "e2e_ms"):
            assert arm[times].keys() == PERCENTILES
        assert arm["output_tokens"] == ours["output_tokens"] > 0
        assert arm["prompt_tokens"] == ours["prompt_tokens"]
        assert 0 < arm["scheduler_share"] < 1
        assert arm["cached_tokens"] <= arm["oracle_tokens"]
    assert uncached["cached_tokens"] == 0
    assert uncached["computed_tokens"] > 1.3 * ours["computed_tokens"]
    assert min(ours["hit_rate"], fcfs["hit_rate"]) > 0.3
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 3 * ours["requests"]


def test_only_what_is_asked_for(tiny_path: Path) -> None:
    """One control, no JSON."""
    arguments = ["--quick", "--model", str(tiny_path), "--cache", "off", "--conversations", "2"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "--policy fcfs" not in done.output
    assert "{" not in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--quick", "--pool-tokens", "64"], f"may have {QUICK.longest} tokens"),
        ([], "admit 512; --quick needs"),
        (["--model", "someone/nothing"], "radixchat models pull someone/nothing"),
        (["--rate", "0"], "0"),
        (["--policy", "sjf"], "'sjf' is not one of 'lpm', 'fcfs'"),
    ],
)
def test_what_it_refuses(tiny_path: Path, arguments: list[str], says: str) -> None:
    """With the value, and what would do, before anything is measured."""
    done = CliRunner().invoke(main, ["--model", str(tiny_path), *arguments])
    assert done.exit_code in (1, 2)
    assert says in done.output
