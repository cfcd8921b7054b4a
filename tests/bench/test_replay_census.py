"""What one pass over a trace learns of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from radixchat.bench.replay_census import Census
from radixchat.bench.trace import open_trace
from radixchat.tests.bench.trace_files import growing_chats, trace_file


def census(path: Path, lines: Sequence[object]) -> Census:
    """A census that has seen all of a trace."""
    trace = open_trace(trace_file(path, lines))
    counted = Census(trace.unit_tokens)
    assert len(list(counted.counted(trace))) == len(lines)
    return counted


def test_the_facts(tmp_path: Path) -> None:
    """Requests, tokens, conversations; the name without its folder, which is nobody's business."""
    trace = open_trace(trace_file(tmp_path / "trace.jsonl", growing_chats(chats=3, turns=2)))
    seen = Census(trace.unit_tokens)
    assert len(list(seen.counted(trace))) == 6
    facts = seen.facts(trace, distinct_units=100, taking_turns=None)
    assert (facts.name, facts.format, facts.unit_tokens) == ("trace.jsonl", "tokens", 1)
    assert (facts.requests, facts.tokens, facts.longest_tokens) == (6, 3 * (20 + 50), 50)
    assert (facts.conversations, facts.namespaces, facts.distinct_tokens) == (3, 1, 100)
    assert (facts.keeps_replies, facts.quiet_lines) == (True, 0)
    assert (seen.roomy_units(1), seen.roomy_units(16)) == (60, 64)


def test_replies_that_leave_nothing(tmp_path: Path) -> None:
    """A reply of one token is sampled and never computed: none is kept."""
    for output, kept in (([7], False), ([7, 8], True)):
        trace = open_trace(trace_file(tmp_path / "t", [{"tokens": [1], "output": output}]))
        seen = Census(1)
        assert len(list(seen.counted(trace))) == 1
        assert seen.facts(trace, 1, None).keeps_replies == kept


def test_signals_pass_uncounted(tmp_path: Path) -> None:
    """They are no requests."""
    lines = [*growing_chats(1, 1), {"event": "closed", "conversation": "0"}]
    assert len(census(tmp_path / "trace.jsonl", lines)) == 1


def test_the_rate_is_of_tokens(tmp_path: Path) -> None:
    """Long prompts weigh more than short ones."""
    seen = census(tmp_path / "trace.jsonl", growing_chats(chats=1, turns=2))
    assert seen.hit_rate(np.array([0, 35])) == 35 / 70


def test_a_block_may_be_partly_filled(tmp_path: Path) -> None:
    """A cached unit is so many tokens, but no prompt's last token is ever cached."""
    lines: list[dict[str, object]] = [
        {"timestamp": 0, "input_length": 1000, "hash_ids": [1, 2]},
        {"timestamp": 1, "input_length": 1025, "hash_ids": [1, 2, 3]},
    ]
    seen = census(tmp_path / "trace.jsonl", lines)
    assert seen.hit_rate(np.array([2, 2])) == (999 + 1024) / 2025


def test_turns(tmp_path: Path) -> None:
    """Each has its own rate, from the tenth on together; a trace without turns has none."""
    seen = census(tmp_path / "trace.jsonl", growing_chats(chats=2, turns=12))
    rates = seen.per_turn(np.arange(24))
    assert rates is not None
    assert [rate.turn for rate in rates] == list(range(1, 11))
    assert [rate.requests for rate in rates] == [2] * 9 + [6]
    assert rates[0].hit_rate == (0 + 1) / 40
    assert rates[-1].tokens == 2 * (290 + 320 + 350)
    assert rates[-1].hit_rate == sum(range(18, 24)) / rates[-1].tokens
    unknown: list[dict[str, object]] = [{"tokens": [1, 2]}, {"tokens": [1, 2]}]
    assert census(tmp_path / "other.jsonl", unknown).per_turn(np.array([0, 1])) is None


def test_a_trace_that_changes_between_two_passes(tmp_path: Path) -> None:
    """No rate is made of what does not belong together."""
    seen = census(tmp_path / "trace.jsonl", growing_chats(chats=1, turns=2))
    with pytest.raises(AssertionError, match="changed"):
        seen.hit_rate(np.array([0]))
