"""What the arms come to: the oracle, the comparison of answers, table and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from radixchat.bench.engine_result import (
    ArmResult,
    as_json,
    difference,
    lines,
    oracle,
    request_lines,
)
from radixchat.bench.engine_run import ArmRun, TurnRecord
from radixchat.engine.stats import EngineStats


def turn(
    conversation: str, number: int, arrival: float, prompt: list[int], output: tuple[int, ...]
) -> TurnRecord:
    return TurnRecord(
        conversation, number, arrival, False, 0.1, 0.3, (0.1, 0.1), 0.02,
        np.array(prompt, np.int32), len(prompt) // 2, output,
    )  # fmt: skip


RUN = ArmRun(
    (
        turn("a", 1, 0.0, [1, 2, 3, 4], (5, 6, 7)),
        turn("b", 1, 0.5, [1, 2, 8, 9], (5, 6, 7)),
        turn("a", 2, 1.0, [1, 2, 3, 4, 5, 6, 7, 8], (1, 1, 1)),
    ),
    2.0,
    1.5,
    EngineStats(
        steps=9, computed_tokens=20, preemptions=2, step_seconds=1.4, schedule_seconds=0.003
    ),
)


def test_the_oracle_knows_all_that_was_computed_before() -> None:
    """The second prompt finds what it shares, the next turn all but the last sampled token."""
    assert oracle(RUN.turns).tolist() == [0, 2, 6]


def test_an_arm_is_summarised() -> None:
    """Rates are of the time in which there was work, hit rates are by token."""
    result = ArmResult.of("ours", RUN)
    assert (result.prompt_tokens, result.cached_tokens, result.oracle_tokens) == (16, 8, 8)
    assert (result.hit_rate, result.oracle_hit_rate) == (0.5, 0.5)
    assert (result.output_tokens, result.output_tokens_per_second) == (9, 6.0)
    assert (result.computed_tokens, result.preemptions, result.steps) == (20, 2, 9)
    assert result.scheduler_share == 0.002
    assert (result.ttft_ms.p50, result.itl_ms.n, result.queue_ms.max) == (100, 6, 20)
    assert [(row.turn, row.requests, row.oracle_hit_rate) for row in result.per_turn] == [
        (1, 2, 0.25),
        (2, 1, 0.75),
    ]


def test_an_answer_that_differs_is_named() -> None:
    """Which turn, and between which arms."""
    turns = (*RUN.turns[:2], replace(RUN.turns[2], output=(1, 1, 2)))
    other = replace(RUN, turns=turns)
    assert difference([("ours", RUN), ("fcfs", RUN)]) is None
    differs = difference([("ours", RUN), ("fcfs", other)])
    assert differs == "turn 2 of conversation a is answered otherwise by 'fcfs' than by 'ours'"
    missing = replace(RUN, turns=RUN.turns[:2])
    assert difference([("ours", RUN), ("fcfs", missing)]) == differs


@pytest.mark.parametrize(
    "title",
    ["answer tokens", "cached", "oracle", "computed", "preemptions", "scheduler", "first token",
     "between tokens", "queue", "p50", "p90", "p95", "p99", "turn 2"],
)  # fmt: skip
def test_the_table_has_a_column_for_each_arm(title: str) -> None:
    """And a line for everything that was measured."""
    text = list(lines([ArmResult.of("ours", RUN), ArmResult.of("--policy fcfs", RUN)]))
    assert text[0].split() == ["ours", "--policy", "fcfs"]
    assert any(title in line for line in text)
    assert len({len(line) for line in text[:10]}) == 1, "the columns are not straight"


def test_the_json_has_every_number() -> None:
    """One line for the arms, and one for each request where they are asked for."""
    document = json.loads(as_json({"bench": "engine"}, [ArmResult.of("ours", RUN)]))
    assert document["bench"] == "engine"
    (arm,) = document["arms"]
    assert arm["ttft_ms"]["p99"] == 100
    assert arm["per_turn"][1]["hit_rate"] == 0.5
    rows = [json.loads(line) for line in request_lines("ours", RUN)]
    assert [row["conversation_id"] for row in rows] == ["a", "b", "a"]
    assert rows[2]["start_ns"] == 10**9
    assert rows[0]["itl_ms"] == [100, 100]
