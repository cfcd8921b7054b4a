"""/stats, /cache and /why over the real service: what they say is what then happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from radixchat.chat_cli.cache_commands import MAX_PRICES, totals
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import CacheReport
from radixchat.tests.chat_cli.scripted import run_script, tiny_settings


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    return tiny_settings(tiny_model, tmp_path / "sessions.db", system="be brief")


def test_the_cache_is_drawn_with_totals_and_prices(settings: ChatSettings) -> None:
    """Warm after a turn; in another process all of it is to be computed."""
    first = run_script(settings, "one", "two", "/cache")
    lines = first.stderr.splitlines()
    assert lines[0] == "system message · 16 tokens, cached"
    assert "  <|im_start|>system" in lines
    total = int(re.findall(r"^(\d+) of 4,096 tokens: ", first.stderr, re.MULTILINE)[0])
    assert total == len(first.turns[-1]["input_ids"] + first.turns[-1]["output_ids"])
    warm = [line for line in lines if line.startswith("+ ") and "marks" not in line]
    assert len(warm) == 1
    assert f"{total} of 4,096 tokens: {total - 1} cached, 1 to compute" in first.stderr
    assert [line.split(" recomputes ")[0] for line in lines if "recomputes" in line] == [
        "editing turn 1",
        "editing turn 2",
    ]
    assert first.code == 0
    conversation = first.turns[0]["conversation"]
    cold = run_script(settings, "/cache", conversation=conversation).stderr
    assert f"{total} of 4,096 tokens: 0 cached, {total} to compute" in cold
    assert "  <|im_start|>" not in cold
    assert "\x1b" not in cold


def test_the_price_is_what_the_edit_then_computes(settings: ChatSettings) -> None:
    """Of a text as long that begins otherwise, in the words of the issue."""
    run = run_script(settings, "some words", "more words", "/cache", "/edit 1 SOME WORDS")
    usage = run.turns[-1]["usage"]
    computed = usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]
    assert f"editing turn 1 recomputes {computed} tokens, about " in run.stderr


def test_many_turns_have_some_prices(settings: ChatSettings) -> None:
    """The first and the last ones; how many are between is said."""
    turns = [str(number) for number in range(MAX_PRICES + 3)]
    lines = run_script(settings, *turns, "/cache").stderr.splitlines()
    prices = [line for line in lines if "recomputes" in line]
    assert len(prices) == MAX_PRICES
    assert prices[0].startswith("editing turn 1 ")
    assert prices[1].startswith("editing turn 5 ")
    assert prices[-1].startswith("editing turn 15 ")
    assert "… 3 more turns; /edit N tells the price of one …" in lines


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            CacheReport(None, 840, 812, (), computing_ms=40.2),
            "840 of 8,192 tokens: 812 cached, 28 to compute, about 40 ms",
        ),
        (CacheReport(None, 840, 0, ()), "840 of 8,192 tokens: 0 cached, 840 to compute"),
        (
            CacheReport(None, 0, 0, (), computing_ms=0.0),
            "0 of 8,192 tokens: 0 cached, 0 to compute",
        ),
    ],
)
def test_totals(report: CacheReport, said: str) -> None:
    """With a time where there is something to compute, and somebody knows how long it takes."""
    assert totals(report, 8192) == said


@pytest.mark.parametrize(
    ("command", "why"), [("/cache", "no turn yet"), ("/why", "nothing was asked")]
)
def test_there_is_nothing_to_show(settings: ChatSettings, command: str, why: str) -> None:
    """A sentence and an exit code, nothing on standard output."""
    run = run_script(settings, command)
    assert (run.stdout, run.code) == ("", 1)
    assert why in run.stderr


def test_why_a_restarted_process_computes_again(settings: ChatSettings) -> None:
    """Each turn is explained by itself; of one that another process has answered nothing is."""
    first = run_script(settings, "one", "/why", "two", "/why")
    told = [line for line in first.stderr.splitlines() if "missed" in line]
    assert "no earlier answer" in told[0]
    cached = first.turns[1]["usage"]["input_tokens_details"]["cached_tokens"]
    total = first.turns[1]["usage"]["input_tokens"]
    assert told[1] == (
        f"nothing was missed: {cached} of {total} cached, the other {total - cached} are new"
    )
    again = run_script(
        settings, "/why", "three", "/why", conversation=first.turns[0]["conversation"]
    )
    assert "error: nothing was asked here yet" in again.stderr
    assert re.search("^why +the tokens were in the cache of an earlier process", again.stderr, re.M)
    missed = again.turns[0]["prompt_cache_diagnostics"]["cache_missed_tokens"]
    assert f"; {missed} were computed again" in again.stderr


def test_why_names_what_was_changed(settings: ChatSettings) -> None:
    """Another system message: where it differs, what stood there, and how much that costs."""
    run = run_script(settings, "one", "/system be LONG", "two", "/why")
    miss = run.turns[1]["prompt_cache_diagnostics"]
    assert miss["reason"] == "changed"
    rows = dict(line.split(maxsplit=1) for line in run.stderr.splitlines()[-5:])
    assert rows["why"] == "a message before the last one has another text than before"
    assert re.match(r"system message, token \d+ of ", rows["from"])
    assert "be brief" in rows["before"]
    assert "be LONG" in rows["now"]
    assert f"; {miss['cache_missed_tokens']} were computed again; the first " in rows["tokens"]


def test_why_is_of_the_last_answer_here(settings: ChatSettings) -> None:
    """A new conversation has none."""
    run = run_script(settings, "one", "/new", "/why")
    assert "error: nothing was asked here yet" in run.stderr


def test_statistics(settings: ChatSettings) -> None:
    """The conversation first, then groups; the rate is that of the turns."""
    run = run_script(settings, "one", "two", "/stats")
    lines = run.stderr.splitlines()
    conversation = run.turns[0]["conversation"]
    assert re.fullmatch(f"conversation +{conversation}", lines[0])
    assert [line for line in lines if line and " " not in line] == ["cache", "answers", "work"]
    usages = [turn["usage"] for turn in run.turns]
    asked = sum(usage["input_tokens"] for usage in usages)
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    assert cached > 0
    assert re.search(f"^  hit rate +{cached / asked:.1%} of ", run.stderr, re.MULTILINE)
    assert re.search(r"^  pool +\d+\.\d% full: [1-9]", run.stderr, re.MULTILINE)
