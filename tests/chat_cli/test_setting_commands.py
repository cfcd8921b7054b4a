"""/set and /model over the real service: what is changed holds for the answers to come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.chat_cli.settings import ChatSettings
from radixchat.tests.chat_cli.scripted import run_script, tiny_settings


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    return tiny_settings(tiny_model, tmp_path / "sessions.db")


def test_a_setting_holds_from_the_next_answer_on(settings: ChatSettings) -> None:
    """It is as if the flag had been given; `default` takes it back."""
    run = run_script(
        settings, "one", "/set max-tokens 3", "/regen", "/set max_tokens default", "/set max_tokens"
    )
    outputs = [turn["usage"]["output_tokens"] for turn in run.turns]
    assert outputs == [6, 3]
    assert run.stderr.splitlines() == [
        "max_tokens  3  (changed; default: 1024)",
        "max_tokens  1024",
        "max_tokens  1024",
    ]
    assert run.code == 0


def test_the_list_marks_what_is_changed(settings: ChatSettings) -> None:
    """All of them, one a line; the run's own flags are changes, too."""
    lines = run_script(settings, "/set").stderr.splitlines()
    assert len(lines) == 26
    marked = [line.split()[0] for line in lines if "(changed; " in line]
    assert marked == ["temperature", "top_p", "max_tokens"]


def test_what_is_wrong_changes_nothing(settings: ChatSettings) -> None:
    """A sentence with what would do, and the exit code."""
    run = run_script(settings, "/set temperature hot", "/set temprature 1", "/set temperature")
    assert run.stderr.splitlines() == [
        "error: temperature: 'hot' is not a valid float range.",
        "error: there is no setting 'temprature'; temperature is one, /set lists them",
        "temperature  0  (changed; default: 0.2)",
    ]
    assert run.code == 1


def test_logprobs_want_objects_to_be_in(settings: ChatSettings) -> None:
    """Where none are printed they would be computed and never seen: refused, as the flag is."""
    lines = ("/set logprobs 3", "/set logprobs default", "/set logprobs")
    run = run_script(replace(settings, json=False, ids=False), *lines)
    assert run.stderr.splitlines() == [
        "error: logprobs adds to the objects of --json, and here are none",
        "logprobs  none",
        "logprobs  none",
    ]
    assert run_script(settings, lines[0]).code == 0


def test_the_model_is_shown(settings: ChatSettings) -> None:
    """Who answers, and how much it can see."""
    assert run_script(settings, "/model").stderr.splitlines() == [
        "model    tiny",
        "context  4,096 tokens",
    ]
