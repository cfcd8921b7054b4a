"""`radixchat bench latency`: each measurement and its control, with a tiny model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from radixchat.bench.latency import PARTS, QUICK, main
from radixchat.bench.latency_overhead import OverheadLoad, overhead
from radixchat.bench.latency_waiting import WaitingLoad, waiting
from radixchat.bench.main import bench
from radixchat.engine.config import EngineConfig
from radixchat.engine.weights import Checkpoint


@pytest.fixture(scope="module")
def output(tiny_path: Path) -> list[str]:
    """What a quick run of everything prints."""
    arguments = ["--quick", "--json", "--model", str(tiny_path)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    lines: list[str] = done.output.splitlines()
    return lines


@pytest.fixture(scope="module")
def document(output: list[str]) -> Any:
    """Its last line."""
    return json.loads(output[-1])


def test_every_part_is_printed_and_in_the_json(output: list[str], document: Any) -> None:
    """The last line is one JSON object."""
    assert document["bench"] == "latency"
    assert {"commit", "machine", "load", "model", "seed", "config", *PARTS} <= document.keys()
    for name in PARTS:
        assert any(line.startswith(f"{name}: ") for line in output)


def test_who_waits_least_is_explained(output: list[str]) -> None:
    """Under the table of waiting it says what the bound bounds, and why fcfs looks best."""
    (last,) = (place for place, line in enumerate(output) if line.startswith("  fcfs "))
    below = " ".join(" ".join(output[last + 1 : last + 3]).split())
    assert below.startswith("The bound is on how often somebody is overtaken.")
    assert below.endswith("find the same prefix: order saves nothing.")


@pytest.mark.parametrize("name", ["engine", "latency"])
def test_help_says_how_long_it_takes(name: str) -> None:
    """Of minutes, and of --quick."""
    text = " ".join(CliRunner().invoke(bench, [name, "--help"]).output.split())
    assert re.search(r"it takes about \w+ minutes, with --quick ", text)


def test_only_some_parts(tiny_path: Path) -> None:
    """Those that are named, and no others."""
    arguments = ["--quick", "--json", "--model", str(tiny_path), "--only", "refusal"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    document = json.loads(done.output.splitlines()[-1])
    assert set(PARTS) & document.keys() == {"refusal"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "gaps,speed"], "'speed' is not one of overhead, gaps, waiting, refusal"),
        (["--model", "someone/nothing"], "radixchat models pull someone/nothing"),
    ],
)
def test_what_it_refuses(arguments: list[str], says: str) -> None:
    """With the value and what would do."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert says in done.output


def test_what_does_not_fit_is_an_error_that_says_so(tiny_path: Path) -> None:
    """The full load needs a longer context than a tiny model has."""
    done = CliRunner().invoke(main, ["--model", str(tiny_path), "--only", "gaps"])
    assert done.exit_code == 1
    assert "gaps: the prompt has 4096 tokens" in done.output


def test_the_index_is_measured_without_reuse(document: Any) -> None:
    """L3: nothing is found, something is evicted, and both engines take the same steps."""
    result = document["overhead"]
    assert result["cached_tokens"] == 0
    assert result["evicted_pages"] > 0
    assert result["steps"] == result["steps_without"]
    assert 0 < result["cache_share"] < result["scheduler_share"] < 1


def test_a_pool_that_is_large_enough_evicts_nothing(tiny: Checkpoint) -> None:
    """Pages are counted as the index has them: what was written, less what is there."""
    load = OverheadLoad(requests=4, running=1, prompt=40, answer=4, pool_tokens=512)
    assert overhead(tiny, load, seed=1).evicted_pages == 0


def test_chunks_keep_an_answer_going(document: Any) -> None:
    """L4: a gap for each chunk; as one chunk the whole prompt is one gap."""
    chunked, whole = document["gaps"]["arms"]
    num_chunks = document["gaps"]["chunks"]
    rounds = chunked["rounds"]
    assert (
        chunked["gaps_ms"]["n"]
        >= rounds * num_chunks
        >= rounds * QUICK.gaps.prompt // QUICK.gaps.step_tokens
    )
    assert whole["gaps_ms"]["n"] == 1
    assert whole["rounds"] == 1 < rounds


def test_nobody_is_overtaken_more_often_than_declared(document: Any) -> None:
    """L7: ours keeps the bound that it declares, first come, first served has none to need.

    The control, the longest prefix without ageing, lets them wait for the end of the stream.
    """
    ours, unbounded, fcfs = document["waiting"]
    assert ours["bound"] == QUICK.waiting.max_overtaken
    assert 0 < ours["overtaken"] <= ours["bound"]
    assert unbounded["bound"] is None
    assert min(unbounded["misses_overtaken"]) >= QUICK.waiting.quiet > ours["bound"]
    assert fcfs["overtaken"] == fcfs["bound"] == 0
    assert ours["hit_rate"] == unbounded["hit_rate"] == fcfs["hit_rate"] > 0.5


def test_the_declared_bound_is_the_plans(tiny: Checkpoint) -> None:
    """Where the load names none, it is the engine's default that is measured."""
    load = WaitingLoad(requests=44, miss_every=3, quiet=40, waiting=3, prefix=440, fresh=4)
    ours, unbounded, _ = waiting(tiny, load, seed=2)
    assert ours.bound == EngineConfig().max_overtaken == 32
    assert 16 < ours.misses_overtaken[0] <= 32
    assert unbounded.misses_overtaken[0] > 38


def test_a_prompt_that_can_never_fit_is_refused_at_once(document: Any) -> None:
    """C7: with the numbers, after each step, and the others give the same answers as without."""
    result = document["refusal"]
    assert result["refusals"] == result["steps"] >= QUICK.refusal.answer
    assert result["num_tokens"] == result["limit"] + 1
    assert result["limited_by"] == "pool"
    assert result["unaffected"]
    assert result["longest_ms"] > 0
