"""What arms came to: rates, shares of the bandwidth, goals, a table and JSON."""

from __future__ import annotations

import json

import pytest

from radixchat.bench.cpu_arm import ArmInfo
from radixchat.bench.cpu_load import Load
from radixchat.bench.cpu_result import LLAMA_CPP, NO_EXACT, OURS, CpuResult, as_document, lines

DECODE, PREFILL = Load("decode", 1024), Load("prefill", 512)
INFO = ArmInfo("what it is", 100, weight_bytes=98_000_000, kv_bytes_per_token=2000)
RESULT = CpuResult(
    arms={OURS: INFO, LLAMA_CPP: INFO, NO_EXACT: INFO},
    seconds={
        DECODE: {OURS: (0.005, 0.004, 0.05), LLAMA_CPP: (0.01,), NO_EXACT: (0.0049,)},
        PREFILL: {OURS: (0.512,), LLAMA_CPP: (1.28,), NO_EXACT: (0.512,)},
    },
    starts={OURS: (2.5, 2.0, 9.0), LLAMA_CPP: (0.5, 0.5, 0.5)},
    bandwidth=40e9,
)


def test_every_goal_that_was_measured_is_judged() -> None:
    """Ratios to the peer, the cost of exactness, the median start."""
    verdicts = {(each.goal, each.reached): each.value for each in RESULT.verdicts()}
    assert verdicts == {
        ("T1", "stretch"): pytest.approx(2.0),
        ("T2", "floor"): pytest.approx(2.5),
        ("T5", "floor"): pytest.approx(0.02),
        ("L8", "stretch"): 2.5,
    }


def test_without_a_peer_only_the_start_is_judged() -> None:
    """And without a start nothing."""
    seconds = {load: {OURS: each[OURS]} for load, each in RESULT.seconds.items()}
    alone = CpuResult({OURS: INFO}, seconds, RESULT.starts, RESULT.bandwidth)
    assert [each.goal for each in alone.verdicts()] == ["L8"]
    assert CpuResult({OURS: INFO}, seconds, {}, RESULT.bandwidth).verdicts() == []


def test_the_share_of_the_bandwidth_is_bytes_over_time() -> None:
    """(98 + 2.048) MB in 5 ms are 20 GB/s, half of 40; a prompt has none."""
    assert RESULT.bandwidth_share(DECODE, OURS) == pytest.approx(0.50024)
    assert RESULT.bandwidth_share(PREFILL, OURS) is None


def test_the_table_has_a_line_a_load_and_a_column_an_arm() -> None:
    """Ratios are ours to the other's."""
    table = [" ".join(line.split()) for line in lines(RESULT)]
    assert "decode at 1,024 200.0 100.0 2.00 204.1 0.98 100.0 50%" in table
    assert "prefill of 512 1000.0 400.0 2.50 1000.0 1.00" in table
    assert "start to token, s 2.50 0.50" in table
    assert any("40.0 GB/s" in line for line in table)


def test_the_document_has_the_same_numbers() -> None:
    """It is JSON; a prompt has no bytes of a step."""
    document = json.loads(json.dumps(as_document(RESULT, RESULT.verdicts())))
    decode, prefill = document["loads"]["decode_1024"], document["loads"]["prefill_512"]
    assert decode[OURS]["tokens_per_second"] == 200
    assert decode[OURS]["slow_quarter"] < 200 < decode[OURS]["fast_quarter"]
    assert decode[LLAMA_CPP]["ours_to_it"] == 2
    assert decode[OURS]["step_bytes"] == 98_000_000 + 1024 * 2000
    assert prefill[OURS]["step_bytes"] is None
    assert prefill[OURS]["bandwidth_share"] is None
    assert document["start_s"][OURS] == {"median": 2.5, "all": [2.5, 2.0, 9.0]}
    assert [each["goal"] for each in document["goals"]] == ["T1", "T2", "T5", "L8"]
    assert document["bandwidth_gb_per_s"] == 40
