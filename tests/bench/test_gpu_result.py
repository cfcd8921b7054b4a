"""Goals are read from the times they are about, and judged by their bounds."""

from __future__ import annotations

import json
import math

import pytest

from radixchat.bench.gpu_ceilings import Ceilings
from radixchat.bench.gpu_check import Check
from radixchat.bench.gpu_engine import EngineTiming
from radixchat.bench.gpu_goals import GOALS
from radixchat.bench.gpu_result import GpuResult
from radixchat.bench.gpu_timeline import busy
from radixchat.bench.gpu_timing import Timing

CEILINGS = Ceilings(copied=1e12, read=1e12, operations=1e14, bandwidth=2e12)


def engine_timing(step_ms: float, idle: float) -> EngineTiming:
    return EngineTiming("a model", 1, 8, 1.0, 1.0, 1.0, step_ms, step_ms, idle, 1.0)


def measured() -> GpuResult:
    gigabyte = 10**9
    return GpuResult(
        "NVIDIA H200",
        {"torch": "2"},
        checks=[Check("a kernel", 1e-7, 1e-5)],
        ceilings=CEILINGS,
        timings={
            "G1": [Timing("ours", 1.0, gigabyte), Timing("torch", 2.0, gigabyte)],
            "G2": [Timing("ours", 2.0, gigabyte)],
            "G3": [Timing("ours", 6.0, gigabyte), Timing("cascade", 1.0, gigabyte)],
            "G4": [Timing("ours", 0.5, gigabyte // 2)],
            "G7": [Timing("ours", 1.0, 0, 6 * 10**10)],
        },
        engine={"G5": engine_timing(1.0, 0.3), "G6": engine_timing(3.0, 0.04)},
    )


def test_every_goal_comes_from_its_measurement() -> None:
    """Shares of the bandwidth and of the matrix rate, ratios of times, a step's and idle time."""
    values = dict(measured().goals())
    expected = {"G1": 0.5, "G2": 0.25, "G3": 6.0, "G4": 2.0, "G7": 0.6, "G5": 1.0, "G6": 0.04}
    assert values == pytest.approx(expected)
    assert set(values) == set(GOALS)


@pytest.mark.parametrize(
    ("name", "value", "reached"),
    [
        ("G1", 0.83, "stretch"),
        ("G1", 0.75, "floor"),
        ("G1", 0.69, "missed"),
        ("G5", 0.6, "stretch"),
        ("G5", 1.5, "floor"),
        ("G5", 1.6, "missed"),
        ("G6", math.nan, "missed"),
    ],
)
def test_a_goal_is_judged_by_its_bounds(name: str, value: float, reached: str) -> None:
    """More is better of some, less of others; what is no number is missed."""
    assert GOALS[name].reached(value) == reached
    assert ("MISSED" in GOALS[name].line(name, value)) == (reached == "missed")


def test_faults_are_wrong_kernels_and_missed_floors() -> None:
    """A dry run is not judged by its times; a NaN is wrong."""
    result = measured()
    assert result.faults(judged=True) == ["below the floor: G1, G2"]
    assert result.faults(judged=False) == []
    result.checks.append(Check("another", math.nan, 1e-5))
    assert result.faults(judged=False) == ["wrong: another"]


def test_the_document_is_json_and_names_no_host() -> None:
    """It has each part; the file is named for the device."""
    result = measured()
    document = json.loads(json.dumps(result.as_document()))
    assert result.slug == "nvidia-h200"
    assert document["device"] == "NVIDIA H200"
    assert document["goals"]["G3"] == {"value": 6.0, "reached": "floor"}
    assert document["timings"]["G1"][0]["of_bandwidth"] == pytest.approx(0.5)


def test_what_was_not_measured_is_not_judged() -> None:
    """A run of the checks alone has no goal."""
    assert list(GpuResult("a device", {}).goals()) == []


def test_idle_is_what_lies_between_steps() -> None:
    """Of steps of 2, 2 and 2 ms with gaps of 1 and 0: 1 of 7 ms."""
    found = busy([(0.0, 2.0), (3.0, 5.0), (5.0, 7.0)])
    assert found.median_ms == 2.0
    assert found.idle == pytest.approx(1 / 7)
