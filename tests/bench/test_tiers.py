"""`radixchat bench tiers`: each measurement and its control, with a tiny model."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.percentiles import Percentiles
from radixchat.bench.tiers import PARTS, QUICK, main
from radixchat.bench.tiers_arm import TierArm
from radixchat.bench.tiers_background import Background, BackgroundArm
from radixchat.bench.tiers_cycle import Cycle, CycleLoad, cycle
from radixchat.bench.tiers_disk import DiskUse, SystemCalls
from radixchat.bench.tiers_gate import GateArm, GateResult
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
    """The last line is one JSON object; no goal is judged by the times of a quick run."""
    assert document["bench"] == "tiers"
    assert {"commit", "machine", "load", "model", "seed", "config", *PARTS} <= document.keys()
    for name in PARTS:
        assert any(line.startswith(f"{name}: ") for line in output)
    assert {goal["what"] for goal in document["goals"]} == {
        "reads per page",
        "most of the quota at any moment",
    }


def test_only_some_parts(tiny_path: Path) -> None:
    """Those that are named, and no others."""
    arguments = ["--quick", "--json", "--model", str(tiny_path), "--only", "policies"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert set(PARTS) & json.loads(done.output.splitlines()[-1]).keys() == {"policies"}


def test_a_working_set_of_three_pools_comes_back(document: Any) -> None:
    """H8: all but the pages that are not whole; without host memory nothing. The same answers."""
    result = document["cycle"]
    assert result["tokens"] >= 3 * result["pool_tokens"]
    assert result["found"] > 0.95
    assert result["found_without"] == 0
    assert result["same"]


def test_the_gate_sees_what_is_slow(document: Any) -> None:
    """L6: nothing comes from a slow store; without a gate all does, and it takes many times."""
    result = document["gate"]
    assert result["slow"]["loaded"] == 0
    assert "computing" in result["slow"]["reason"]
    assert result["always"]["loaded"] == 1
    assert result["always"]["cost"] > 3
    assert result["turned"]["loaded"] < 0.5
    assert result["same"]


def test_what_each_policy_has_when_a_process_is_killed(document: Any) -> None:
    """write_back has nothing, and all at the end; the other has what was asked for twice."""
    back, through = document["policies"]["arms"]
    assert (back["policy"], back["written"], back["killed"], back["closed"]) == (
        "write_back",
        0,
        0,
        1,
    )
    assert through["policy"] == "write_through_selective"
    assert 0.4 < through["killed"] < 1
    assert through["closed"] == 1
    assert 0 < through["written"] < through["written_closed"] == back["written_closed"]


def test_pages_are_read_and_written_meanwhile(document: Any) -> None:
    """For each question some; and the answers are those of the engine without."""
    result, load = document["background"], QUICK.background
    pages = load.rounds * load.text // 16
    assert result["written"] >= pages / 2
    assert result["read"] >= pages / 2
    assert result["with_io"]["gaps_ms"]["n"] == load.rounds * (load.answer - 1)
    assert result["same"]


def test_the_disk_is_counted(document: Any) -> None:
    """A read a page; the quota was full, and never more than that."""
    result = document["disk"]
    assert result["reads"] == result["pages_read"] >= 6
    assert result["pages_kept"] < result["pages_written"]
    assert result["most_bytes"] <= result["quota_bytes"]
    assert result["looks"] > result["pages_written"]


def test_an_engine_that_loses_pages_is_found_out(tiny: Checkpoint) -> None:
    """Control of the cycle: too little host memory finds little."""
    load = CycleLoad(prompts=4, tokens=128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("radixchat.bench.tiers_cycle.HOST_SHARE", 0.5)
        assert cycle(tiny, load, seed=1).found < 0.5


def test_calls_of_the_system_are_counted(tmp_path: Path) -> None:
    """By name, with a look after each, and as before afterwards."""
    looks: list[int] = []
    original = os.pread
    with (tmp_path / "file").open("w+b", buffering=0) as file:
        file.write(b"abc")
        with SystemCalls(("pread", "no_such_call"), lambda: looks.append(1)) as calls:
            assert os.pread(file.fileno(), 2, 1) == b"bc"
            assert os.pread(file.fileno(), 1, 0) == b"a"
    assert calls.count == len(looks) == 2
    assert os.pread is original


def test_an_arm_answers_as_an_engine_does(tiny: Checkpoint) -> None:
    """As many tokens, each later than the one before; a second time from the cache."""
    arm = TierArm(tiny, EngineConfig(threads=1))
    first, second = (arm.answer(list(range(50)), 5) for _ in range(2))
    assert first.tokens == second.tokens
    assert len(first.tokens) == 5
    assert len(first.gaps_ms) == 4
    assert list(first.arrivals) == sorted(first.arrivals)
    assert (first.usage.cached_tokens, second.usage.cached_tokens) == (0, 49)
    arm.rest()


def reached(verdicts: list[Verdict]) -> list[str]:
    return [f"{each.goal} {each.reached}" for each in verdicts]


def test_what_the_cycle_is_judged_by() -> None:
    """H8 from .99 on, its control up to .05, a hit in memory from 20 times on; short ones not."""
    result = Cycle(4, 4132, 1376, 0.991, 0.05, 50.0, 1000.0, 20.0, True)
    assert reached(result.verdicts()) == ["H8 floor", "H8 floor", "3.14 floor"]
    worse = replace(result, found=0.989, found_without=0.06, speed_up=19.0)
    assert reached(worse.verdicts()) == ["H8 missed", "H8 missed", "3.14 missed"]
    assert replace(worse, tokens=804).verdicts() == []


def gate_arm(name: str, cost: float) -> GateArm:
    return GateArm(name, 16, 10.0, "measured", 100 * cost, 100.0, cost, cost, 0.0, None)


def test_what_the_gate_is_judged_by() -> None:
    """L6 by the worst of the slow stores; a control that costs nothing fails, and a shut gate."""
    names = ("slow", "always", "turned", "quick", "throttled")
    costs = dict(zip(names, (1.03, 1.4, 1.1, 0.05, 0.2), strict=True))
    arms = {name: gate_arm(name, cost) for name, cost in costs.items()}
    result = GateResult(**arms, same=True, judged=True)
    assert reached(result.verdicts()) == ["L6 floor", "L6 stretch", "L6 stretch"]
    throttled = replace(result, throttled=gate_arm("throttled", 1.06))
    assert reached(throttled.verdicts())[0] == "L6 missed"
    harmless = replace(result, always=gate_arm("always", 1.0), quick=gate_arm("quick", 0.99))
    assert reached(harmless.verdicts())[1:] == ["L6 missed", "L6 missed"]
    assert replace(result, judged=False).verdicts() == []


def test_what_the_background_is_judged_by() -> None:
    """Both at p95, from 300 gaps on."""
    many, few = Percentiles.of([1.0] * 300), Percentiles.of([1.0] * 299)
    arm = BackgroundArm("with", few, many)
    result = Background(arm, arm, 10, 10, gap_cost=1.04, ttft_cost=1.06, same=True)
    assert reached(result.verdicts()) == ["8.4 floor", "8.4 missed"]
    assert replace(result, with_io=replace(arm, gaps_ms=few)).verdicts() == []


def test_what_the_disk_is_judged_by() -> None:
    """Exactly one read a page, and not a byte more than the quota."""
    use = DiskUse(10, 5, 8, 8, 100, 100, 50)
    assert reached(use.verdicts()) == ["8.4 stretch", "8.4 stretch"]
    worse = replace(use, reads=9, most_bytes=101)
    assert reached(worse.verdicts()) == ["8.4 missed", "8.4 missed"]
