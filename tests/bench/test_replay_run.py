"""A trace through caches and oracles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.bench.engines import ENGINE_NAMES
from radixchat.bench.replay_progress import unwatched
from radixchat.bench.replay_result import ReplayResult
from radixchat.bench.replay_run import ReplayPlan, replay
from radixchat.bench.trace import Trace, TraceError, TraceItem, open_trace
from radixchat.radix.policies import POLICY_NAMES
from radixchat.tests.bench.trace_files import growing_chats, trace_file


def run(
    path: Path,
    lines: list[dict[str, object]],
    *capacities: int | None,
    engines: tuple[str, ...] = ("ours",),
    policies: tuple[str, ...] = ("lru",),
    page_size: int = 1,
) -> ReplayResult:
    """Replay these lines; without capacities the default ones are used."""
    trace = open_trace(trace_file(path, lines))
    plan = ReplayPlan(capacities or None, engines, policies, page_size, None)
    return replay(trace, plan, unwatched)


def test_every_number_of_a_small_trace(tmp_path: Path) -> None:
    """Three chats of two turns: the second finds the first and its answer, less one token."""
    result = run(tmp_path / "t", growing_chats(3, 2), None, 100)
    unlimited, small = result.arms
    assert result.infinite == 3 * 29 / 210
    assert result.facts.distinct_tokens == 3 * 59
    assert (unlimited.hit_rate, unlimited.evicted_tokens) == (result.infinite, 0)
    assert (unlimited.reference_lru, unlimited.optimum) == (result.infinite, result.infinite)
    assert small.capacity_tokens == 100
    assert small.hit_rate == small.reference_lru
    assert small.optimum is not None
    assert small.hit_rate <= small.optimum <= result.infinite
    assert small.evicted_tokens >= 3 * 59 - 100
    assert small.per_turn is not None
    assert small.per_turn[0].hit_rate == 0.0
    for arm in result.arms:
        assert None not in (arm.us_per_match, arm.us_per_insert, arm.index_bytes_per_token)
        assert arm.page_size == 1


def test_everybody_at_every_capacity(tmp_path: Path) -> None:
    """By capacity, then as asked; only ours has policies, times and memory."""
    result = run(
        tmp_path / "t",
        growing_chats(6, 4),
        128,
        400,
        engines=ENGINE_NAMES,
        policies=POLICY_NAMES,
        page_size=16,
    )
    ours = [f"ours {policy}" for policy in POLICY_NAMES]
    assert [(arm.capacity_tokens, arm.name) for arm in result.arms] == [
        (capacity, name) for capacity in (128, 400) for name in (*ours, *ENGINE_NAMES[1:])
    ]
    for arm in result.arms:
        assert arm.optimum is not None
        assert 0 <= arm.hit_rate <= arm.optimum <= arm.infinite < 1
        simulated = arm.engine != "ours"
        assert bool(arm.ignores) == simulated
        assert (arm.us_per_match is None) == (arm.index_bytes_per_token is None) == simulated
        assert (arm.policy is None) == simulated


def test_no_request_is_larger_than_no_limit(tmp_path: Path) -> None:
    """Without a limit nothing is evicted and nothing is too long, at any page size."""
    for page_size in (1, 7, 16):
        result = run(
            tmp_path / "t",
            growing_chats(4, 5),
            None,
            engines=ENGINE_NAMES[:3],
            policies=POLICY_NAMES,
            page_size=page_size,
        )
        for arm in result.arms:
            assert (arm.evicted_tokens, arm.too_long) == (0, 0), arm.name
            if arm.engine == "ours":
                assert arm.hit_rate == result.infinite


def test_a_request_that_fits_nowhere(tmp_path: Path) -> None:
    """It is counted."""
    result = run(tmp_path / "t", growing_chats(1, 3), 64)
    assert result.arms[0].too_long == 1


def test_sizes_that_nobody_chose(tmp_path: Path) -> None:
    """They are shares of the distinct tokens, and the result says that nobody chose them."""
    result = run(tmp_path / "t", growing_chats(10, 4))
    assert result.facts.distinct_tokens == 10 * 119
    assert [arm.capacity_tokens for arm in result.arms] == [60, 120, 240, 600]
    assert not result.chosen_capacities
    assert run(tmp_path / "t", growing_chats(10, 4), 60).chosen_capacities


def test_some_size_that_nobody_chose_holds_every_request(tmp_path: Path) -> None:
    """So that a small trace isn't answered by nothing but misses."""
    result = run(tmp_path / "t", growing_chats(1, 3), page_size=16)
    assert result.arms[-1].capacity_tokens == result.arms[-1].roomy_tokens == 96
    assert [bool(arm.too_long) for arm in result.arms] == [True] * (len(result.arms) - 1) + [False]
    assert result.arms[-1].hit_rate > 0


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_the_size_that_is_suggested_is_enough(tmp_path: Path, engine: str) -> None:
    """For every engine; llama.cpp's slots each have a part of it."""
    (small,) = run(tmp_path / "t", growing_chats(2, 3), 48, engines=(engine,), page_size=16).arms
    assert small.too_long > 0
    (roomy,) = run(
        tmp_path / "t", growing_chats(2, 3), small.roomy_tokens, engines=(engine,), page_size=16
    ).arms
    assert roomy.too_long == 0


def test_a_block_hash_trace_counts_its_blocks(tmp_path: Path) -> None:
    """Capacity and pages are given in tokens, whatever a unit is."""
    lines: list[dict[str, object]] = [
        {"timestamp": t, "input_length": 512 * 3, "hash_ids": [1, 2, 3 + t % 2]} for t in range(4)
    ]
    result = run(tmp_path / "t", lines, 512 * 3, 512 * 5)
    small, large = result.arms
    assert (small.page_size, small.capacity_tokens) == (512, 1536)
    assert result.infinite == large.hit_rate == 3 * 2 / 12
    assert small.evicted_tokens == 3 * 512
    assert large.evicted_tokens == 0


def test_a_trace_without_requests(tmp_path: Path) -> None:
    """It is refused by name."""
    with pytest.raises(TraceError, match=r"t: .*holds no request"):
        run(tmp_path / "t", [{"event": "typing", "conversation": "a"}], 64)
    with pytest.raises(TraceError, match=r"holds no request; 2 of its lines ask nothing"):
        run(tmp_path / "t", [{"messages": []}] * 2, 64)


def test_chats_that_ask_nothing_are_counted(tmp_path: Path) -> None:
    """By their lines."""
    hi: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}]}
    assert run(tmp_path / "t", [hi, {"messages": []}], 64).facts.quiet_lines == 1


def test_every_pass_is_announced(tmp_path: Path) -> None:
    """By what runs and at which size; the first without a number of requests."""
    seen = []

    def watch(name: str, trace: Trace, requests: int | None) -> Iterator[TraceItem]:
        seen.append((name, requests))
        return iter(trace)

    trace = open_trace(trace_file(tmp_path / "t", growing_chats(2, 2)))
    replay(trace, ReplayPlan((1000, None), ("ours", "tgi"), ("lru", "chat"), 1, None), watch)
    assert seen[0] == ("reading the trace", None)
    assert seen[1:] == [
        (name, 4)
        for name in (
            "ours lru 1,000",
            "ours chat 1,000",
            "tgi 1,000",
            "ours lru inf",
            "ours chat inf",
            "tgi inf",
        )
    ]
