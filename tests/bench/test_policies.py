"""The comparison of policies: what it prints, what its controls hear, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.policies import main
from radixchat.bench.policy_study import (
    CONTENDERS,
    Contender,
    Hearing,
    gap_closed,
    heard,
    study,
)
from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.bench.workload import ChatWorkload
from radixchat.radix.use import Signal


def run(*arguments: str) -> tuple[list[str], dict[str, object]]:
    done = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    return lines[:-1], json.loads(lines[-1])


def test_the_bench_prints_a_table_and_one_json_line() -> None:
    """With commit, machine, seeds; every policy at every capacity is between nothing and MIN."""
    lines, report = run("--conversations", "60", "--seeds", "2", "--capacities", "30,10")
    assert report["seeds"] == [0, 1]
    assert report["page_size"] == 16
    assert {"commit", "machine", "hears"} < set(report)
    studies = report["studies"]
    assert isinstance(studies, list)
    assert len(studies) == 2
    for one in studies:
        assert [cell["share"] for cell in one["capacities"]] == [0.3, 0.1]
        for cell in one["capacities"]:
            assert set(cell["policies"]) == {each.label for each in CONTENDERS}
            for rate in cell["policies"].values():
                assert 0 < rate <= cell["optimum"] <= one["infinite"] < 1
    text = "\n".join(lines)
    for each in CONTENDERS:
        assert f"\n{each.label} " in text
    assert "30%" in text
    assert "chat - lru, points" in text
    assert "% after a rate: how much of the gap between lru and the optimum it closes" in text


def test_a_trace_without_conversations_is_not_harmed(tmp_path: Path) -> None:
    """A block trace is studied at its own block size, and chat decides as LRU does there."""
    path = tmp_path / "blocks.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(300):
            blocks = [number % 7, 100 + number % 41, 1000 + number % 13, 2000 + number]
            line = {
                "timestamp": number * 1000,
                "input_length": 2000,
                "output_length": 5,
                "hash_ids": blocks,
            }
            file.write(json.dumps(line) + "\n")
    lines, report = run("--trace", str(path), "--capacities", "20")
    assert "page size 1 units" in lines[0]
    assert report["page_size"] == 1
    studies = report["studies"]
    assert isinstance(studies, list)
    policies = studies[0]["capacities"][0]["policies"]
    assert policies["chat"] == policies["lru"] > 0


def test_a_trace_that_cannot_be_studied_has_no_heading(tmp_path: Path) -> None:
    """It is refused before anything is printed."""
    path = tmp_path / "tiny.jsonl"
    path.write_text('{"tokens": [1, 2]}\n', "utf-8")
    done = CliRunner().invoke(main, ["--trace", str(path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is less than a page of 16" in done.stderr


def test_a_policy_without_news_is_worse_than_with() -> None:
    """On chats that are closed, chat beats LRU, and hearing nothing takes most of that away."""
    traffic = ChatWorkload(0, 300)
    kept = [CONTENDERS[0], CONTENDERS[3], CONTENDERS[5]]
    cell = study(traffic, kept, [0.2], 16).capacities[0]
    lru, chat, deaf = (cell.policies[each.label] for each in kept)
    assert lru < chat < cell.optimum
    assert deaf - lru < 0.5 * (chat - lru)


def test_pages_of_one_token_lose_nothing() -> None:
    """With a cache for everything, a page size of 1 finds what the infinite bound says."""
    one = study(ChatWorkload(0, 20), [Contender("lru", "lru")], [1.0], 1)
    assert one.capacities[0].policies["lru"] == one.infinite == one.capacities[0].optimum


def test_hearing_takes_away_what_it_says() -> None:
    """A control hears of ends only, or of nothing; who asks is always known."""
    items = list(ChatWorkload(0, 100))
    ends = [heard(item, Hearing.ENDS) for item in items]
    nothing = [heard(item, Hearing.NOTHING) for item in items]
    signals = {item.signal for item in ends if isinstance(item, TraceSignal)}
    assert signals == {Signal.CLOSED}
    assert any(isinstance(item, TraceRequest) and item.superseded is not None for item in ends)
    asked = [item for item in items if isinstance(item, TraceRequest)]
    left = [item for item in nothing if item is not None]
    assert len(left) == len(asked)
    for item, request in zip(left, asked, strict=True):
        assert isinstance(item, TraceRequest)
        assert item.superseded is None
        assert item.prompt is request.prompt
        assert item.conversation == request.conversation


def test_gap_closed_is_a_share_or_unknown() -> None:
    """Half of the way is a half, backwards is negative, and no way has no share."""
    assert gap_closed(0.85, 0.8, 0.9) == pytest.approx(0.5)
    assert gap_closed(0.7, 0.8, 0.9) == pytest.approx(-1)
    assert gap_closed(0.9, 0.9, 0.9) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacities", "many"], "'many' is no list of percentages"),
        (["--capacities", "0"], "each must be above 0 and at most 100"),
        (["--conversations", "1", "--capacities", "0.01"], "is less than a page of 16"),
        (["--trace", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_studied_is_said(arguments: list[str], message: str) -> None:
    """With the value, and without a traceback."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output
