"""`radixchat bench restart`: real processes, warm and cold, and what their times are judged by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.cpu_arm import ArmFailed
from radixchat.bench.restart import TURNS, long_texts, main
from radixchat.bench.restart_process import ChatProcess
from radixchat.bench.restart_result import (
    RestartArm,
    RestartResult,
    RestartTurn,
    as_document,
    lines,
)
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.prompt import ChatMessage


def turn(ttft_ms: float, disk: int = 1980, text: str = "a", prompt: int = 2000) -> RestartTurn:
    return RestartTurn(prompt, disk, disk, ttft_ms, text, 3.0, 1_000_000, None)


def result(ratios: list[float], disk: int = 1980, text: str = "a") -> RestartResult:
    warm = RestartArm(tuple(turn(1000 * ratio, disk) for ratio in ratios))
    cold = RestartArm(tuple(turn(1000, 0, text) for _ in ratios))
    return RestartResult(warm, cold, asked=True)


def test_texts_have_as_many_tokens_as_are_asked_for(tiny_path: Path) -> None:
    """All turns together, as the model counts them, and the same for the same seed."""
    texts = long_texts(str(tiny_path), 900, 1)
    assert len(texts) == TURNS
    encoder = TemplateEncoder.load(str(tiny_path))
    lengths = [len(encoder.begin().turn([ChatMessage("user", t)], None)[0]) for t in texts]
    assert 800 < sum(lengths) <= 900 + 30 * TURNS
    assert not any("\n" in text for text in texts), "a line is a turn"
    assert texts == long_texts(str(tiny_path), 900, 1) != long_texts(str(tiny_path), 900, 2)


@pytest.mark.parametrize(
    ("ratios", "disk", "judged"),
    [
        ([0.9, 0.07, 0.05], 1980, ["stretch", "stretch"]),
        ([0.2, 0.1, 0.3], 1900, ["floor", "floor"]),
        ([0.21, 0.2, 0.3], 1700, ["missed", "missed"]),
    ],
)
def test_the_median_of_pairs_is_judged(ratios: list[float], disk: int, judged: list[str]) -> None:
    """L5: and that it was the disk that made it quick."""
    assert [each.reached for each in result(ratios, disk).verdicts()] == judged


def test_a_short_conversation_is_not_judged() -> None:
    """It is computed too quickly."""
    short = RestartArm((turn(10, 300, prompt=400),))
    assert RestartResult(short, short, asked=True).verdicts() == []


def test_another_answer_is_said_aloud() -> None:
    """In the table and in the JSON."""
    other = result([0.1], text="b")
    assert not other.same
    assert "OTHER ANSWERS" in list(lines(other))
    assert as_document(other)["same"] is False
    assert "the same answers" in list(lines(result([0.1])))


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    """With what it wrote."""
    process = ChatProcess("disk", str(tmp_path / "nothing"), 1, tmp_path, "64M")
    with pytest.raises(ArmFailed, match="disk: radixchat chat ended with status"):
        process.go_on("hello")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_both_arms_of_real_processes(tiny_path: Path) -> None:
    """A restart of each, with the same answers; the JSON comes last."""
    arguments = ["--json", "--model", str(tiny_path), "--tokens", "200", "--rounds", "1"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["bench"] == "restart"
    assert document["same"]
    assert document["goals"] == []
    cold = document["arms"]["cold"]["turns"][0]
    assert (cold["cached"], cold["disk"]) == (0, 0)
    assert 200 <= cold["prompt"] <= 320
