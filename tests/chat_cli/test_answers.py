"""What an answer was asked for is what it is, from the settings to the shown turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.control_characters import without_controls
from radixchat.server.protocol import ResponseFormat
from radixchat.tests.chat_cli.scripted import messages_of, run_script, tiny_settings

CONTEXT = 4096  # of the model


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def test_stop(tiny_model: Path, database: Path) -> None:
    """The answer ends before its stop text, which is named; so does what is kept of it."""
    settings = tiny_settings(tiny_model, database, max_output_tokens=40)
    (plain,) = run_script(settings, "one").turns
    text = plain["output_text"]
    stop = text[10:12]
    shown = text[: text.index(stop)]
    settings = tiny_settings(tiny_model, database, max_output_tokens=40, stop=("\x00!", stop))
    (turn,) = run_script(settings, "one").turns
    assert (turn["status"], turn["stop"], turn["output_text"]) == ("completed", stop, shown)
    assert messages_of(settings)[-1].text == shown


def test_format(tiny_model: Path, database: Path) -> None:
    """A choice is one of its texts, whatever the model would say."""
    wanted = ResponseFormat("choice", '["maybe", "never"]')
    run = run_script(tiny_settings(tiny_model, database, response_format=wanted), "one", "two")
    assert run.code == 0
    assert {turn["output_text"] for turn in run.turns} <= {"maybe", "never"}
    assert [turn["status"] for turn in run.turns] == ["completed"] * 2


def test_impossible_format(tiny_model: Path, database: Path) -> None:
    """A schema that nothing fulfils is refused; no turn is stored."""
    wanted = ResponseFormat("json_schema", '{"type": "nothing"}')
    run = run_script(tiny_settings(tiny_model, database, response_format=wanted), "one", "/regen")
    assert run.code == 1
    assert [turn["error"]["code"] for turn in run.turns] == ["invalid_value"] * 2
    assert [turn["response"] for turn in run.turns] == [None] * 2


def test_log_probabilities(tiny_model: Path, database: Path) -> None:
    """One entry for each token that was sampled, with as many others as were asked for."""
    (turn,) = run_script(tiny_settings(tiny_model, database, top_logprobs=2), "one").turns
    assert len(turn["logprobs"]) == len(turn["output_ids"]) == 6
    for entry in turn["logprobs"]:
        # Greedy: the token is the likeliest one.
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] < 0
        assert len(entry["top_logprobs"]) == 2


def test_time_limit(tiny_model: Path, database: Path) -> None:
    """When its time is up an answer ends as it is, is kept, and says so."""
    settings = tiny_settings(
        tiny_model, database, json=False, max_output_tokens=None, timeout_s=0.3
    )
    run = run_script(settings, "one")
    assert run.code == 0
    assert run.stderr.endswith(" · time limit reached\n")
    # What it says is kept as it is; a pipe gets it without control characters.
    assert without_controls(messages_of(settings)[-1].text) == run.stdout.removesuffix("\n")


@pytest.mark.parametrize("regenerate", [False, True])
def test_speculation(tiny_model: Path, database: Path, *, regenerate: bool) -> None:
    """It changes no answer, and without it no token is guessed."""
    lines = ("ha " * 40, "/regen" if regenerate else "ha " * 40)
    guessing = run_script(tiny_settings(tiny_model, database, max_output_tokens=40), *lines).turns
    plain = run_script(
        tiny_settings(tiny_model, database, max_output_tokens=40, speculate=False), *lines
    ).turns
    assert [turn["output_ids"] for turn in guessing] == [turn["output_ids"] for turn in plain]
    assert [turn["timings"]["draft_n"] for turn in plain] == [0, 0]
    if regenerate:
        # The old answer is the guess for the new one, and a greedy one is right.
        assert guessing[1]["timings"]["draft_n_accepted"] > 20


def test_a_fixed_seed_repeats_the_answer(tiny_model: Path, database: Path) -> None:
    """/regen says the same again with a seed; without one each answer draws and tells its own."""
    settings = tiny_settings(tiny_model, database, temperature=1.0, seed=5)
    one, again = run_script(settings, "one", "/regen").turns
    assert one["output_ids"] == again["output_ids"]
    assert one["seed"] == again["seed"] == 5
    settings = tiny_settings(tiny_model, database, temperature=1.0)
    one, other = run_script(settings, "one", "/regen").turns
    assert one["seed"] != other["seed"]


def test_truncation(tiny_model: Path, database: Path) -> None:
    """Turns that no longer fit are left out and named, once; the newest is answered."""
    lines = [f"turn {number} " + "x" * (CONTEXT // 4) for number in range(1, 6)]
    settings = tiny_settings(tiny_model, database, truncation="auto")
    run = run_script(settings, *lines, "short", "short")
    assert run.code == 0
    turns = run.turns
    assert [turn["status"] for turn in turns] == ["incomplete"] * 7  # as long as was asked for
    assert turns[0]["left_out"] == turns[1]["left_out"] == []
    cut = next(turn for turn in turns if turn["left_out"])
    assert cut["left_out_tokens"] > CONTEXT // 4
    users = [message.id for message in messages_of(settings) if message.role == "user"]
    count = sum(message in cut["left_out"] for message in users)
    notes = [line for line in run.stderr.splitlines() if "left out" in line]
    assert cut["left_out"][0] == users[0]
    assert f"turns 1 to {count} do not fit" in notes[0] or (count == 1 and "turn 1 " in notes[0])
    told = {tuple(turn["left_out"]) for turn in turns if turn["left_out"]}
    assert len(notes) == len(told)


def test_a_conversation_that_is_too_long(tiny_model: Path, database: Path) -> None:
    """It is refused, and the way out is named; a message that alone is too long has none."""
    settings = tiny_settings(tiny_model, database, json=False)
    half, whole = "x" * (CONTEXT // 2), "x" * CONTEXT
    run = run_script(settings, half, half, whole)
    assert run.code == 1
    assert run.stderr.count("error: the prompt has ") == 2
    hint = "`--truncation auto` answers without the oldest turns, /new without any"
    assert run.stderr.splitlines().count(hint) == 2
    assert hint not in run_script(settings, whole).stderr
