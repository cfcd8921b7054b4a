"""Piped lines: each a turn of one conversation, commands included, over the real service."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from radixchat.chat_cli import script
from radixchat.chat_cli.exit_codes import ERROR, USAGE
from radixchat.engine.engine import Engine
from radixchat.engine.request import TokenEvent
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.protocol import InvalidRequest, ResponseFormat
from radixchat.server.store import Store
from radixchat.tests.chat_cli.scripted import (
    Run,
    messages_of,
    run_one,
    run_script,
    tiny_settings,
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def test_turns_of_one_conversation(tiny_model: Path, database: Path) -> None:
    """Lines are turns of one conversation, blank ones are skipped, each is one object."""
    run = run_script(tiny_settings(tiny_model, database), "one", "", "   ", "two")
    first, second = run.turns
    assert (run.code, run.stderr) == (0, "")
    assert first["conversation"] == second["conversation"]
    assert second["input_ids"][: len(first["input_ids"])] == first["input_ids"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= len(first["input_ids"])


def test_text(tiny_model: Path, database: Path) -> None:
    """As text: exactly the answers, a newline after each; the status lines are elsewhere."""
    as_json = run_script(tiny_settings(tiny_model, database), "one", "two")
    run = run_script(tiny_settings(tiny_model, database, json=False), "one", "two")
    assert run.stdout == "".join(turn["output_text"] + "\n" for turn in as_json.turns)
    assert len(run.stderr.splitlines()) == 2
    assert all(line.startswith("cached ") for line in run.stderr.splitlines())
    assert "max tokens reached" in run.stderr


def test_regenerate(tiny_model: Path, database: Path) -> None:
    """/regen answers the same prompt again, from the cache, and prints its turn."""
    first, again = run_script(tiny_settings(tiny_model, database), "one", "/regen").turns
    assert again["input_ids"] == first["input_ids"]
    assert again["output_ids"] == first["output_ids"]
    assert again["usage"]["input_tokens_details"]["cached_tokens"] == len(first["input_ids"]) - 1


def test_edit(tiny_model: Path, database: Path) -> None:
    """/edit N TEXT answers as if turn N had been TEXT; what came after it is off the path."""
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "one", "two", "/edit 1 three", "four")
    plain = run_script(settings, "three", "four")
    assert [t["output_ids"] for t in run.turns[2:]] == [t["output_ids"] for t in plain.turns]
    assert run.code == 0


def test_undo(tiny_model: Path, database: Path) -> None:
    """/undo takes the last turn back and prints nothing on standard output."""
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "one", "two", "/undo", "three")
    plain = run_script(settings, "one", "three")
    assert run.turns[-1]["input_ids"] == plain.turns[-1]["input_ids"]
    assert len(run.turns) == 3
    assert run.stderr == "taken back: two\n"


def test_new(tiny_model: Path, database: Path) -> None:
    """/new begins another conversation with the same system message."""
    settings = tiny_settings(tiny_model, database, system="be brief")
    first, second = run_script(settings, "one", "/new", "one").turns
    assert first["conversation"] != second["conversation"]
    assert first["input_ids"] == second["input_ids"]


def test_new_after_continuing_keeps_its_system_message(tiny_model: Path, database: Path) -> None:
    """/new takes over the system message of the conversation that was continued."""
    old = run_script(tiny_settings(tiny_model, database, system="be brief"), "one").turns[0]
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "/new", "one", conversation=old["conversation"])
    assert run.turns[0]["input_ids"] == old["input_ids"]


def test_continue(tiny_model: Path, database: Path) -> None:
    """A later run goes on exactly where the conversation ended."""
    settings = tiny_settings(tiny_model, database)
    together = run_script(settings, "one", "two").turns
    apart = run_script(settings, "one").turns
    apart += run_script(settings, "two", conversation=apart[0]["conversation"]).turns
    assert [t["input_ids"] for t in apart] == [t["input_ids"] for t in together]
    assert [t["output_ids"] for t in apart] == [t["output_ids"] for t in together]


def test_slashes(tiny_model: Path, database: Path) -> None:
    """//text is the message /text; /exit ends the input."""
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "//exit", "/exit", "never sent")
    assert (len(run.turns), run.code) == (1, 0)
    assert [m.text for m in messages_of(settings) if m.role == "user"] == ["/exit"]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["/bogus"], "no command /bogus"),
        (["/exit now"], "takes no argument"),
        (["/edit 1"], "/edit N TEXT"),
        (["/edit"], "/edit N TEXT"),
        (["/edit 1 text"], "no turn yet"),
        (["/regen"], "no turn yet"),
        (["/regen 3"], "no turn yet"),
        (["/continue"], "no turn yet"),
        (["/paste"], "/paste puts the clipboard into an input line"),
        (["/clear"], "/clear clears a screen"),
    ],
)
def test_refused(tiny_model: Path, database: Path, lines: list[str], complaint: str) -> None:
    """What cannot become a turn is one failed object; the next line is answered; the code is 1."""
    run = run_script(tiny_settings(tiny_model, database), *lines, "one")
    refused, answered = run.turns
    assert refused["status"] == "failed"
    assert complaint in refused["error"]["message"]
    assert answered["status"] == "incomplete"
    assert (run.code, run.stderr) == (1, "")


def test_edit_of_a_turn_that_is_not_there(tiny_model: Path, database: Path) -> None:
    """/edit 99 says how many turns there are, and changes nothing."""
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "one", "/edit 99 x", "two")
    assert "99" in run.turns[1]["error"]["message"]
    assert run.turns[2]["input_ids"] == run_script(settings, "one", "two").turns[1]["input_ids"]


def test_undo_of_nothing(tiny_model: Path, database: Path) -> None:
    """/undo without a turn is an error on standard error, and no object."""
    run = run_script(tiny_settings(tiny_model, database), "/undo", "one", "/undo", "/undo")
    assert len(run.turns) == 1
    assert run.stderr.count("error: ") == 2
    assert run.code == 1


def test_stats_and_help(tiny_model: Path, database: Path) -> None:
    """/stats and /help are on standard error, also with --json."""
    run = run_script(tiny_settings(tiny_model, database), "/help", "one", "/stats")
    assert len(run.turns) == 1
    assert "/edit [N [TEXT]]" in run.stderr
    assert "cached tokens" in run.stderr


def test_several_lines_are_one_message(tiny_model: Path, database: Path) -> None:
    """/multi begins and ends a message, in which nothing is a command; the last needs no end."""
    settings = tiny_settings(tiny_model, database)
    lines = ("/multi", "a", "", "  /undo", "b\t", "/multi", "one", "/multi", "", "/multi")
    run = run_script(settings, *lines, "/multi", "/exit", "c")
    assert (len(run.turns), run.code, run.stderr) == (3, 0, "")
    users = [m.text for m in messages_of(settings) if m.role == "user"]
    assert users == ["a\n\n  /undo\nb\t", "one", "/exit\nc"]


def test_a_message_of_lines_without_end(
    tiny_model: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before it fills the memory."""
    monkeypatch.setattr(script, "MAX_BYTES", 100)
    with pytest.raises(InvalidRequest, match="a message of several lines has more than"):
        run_script(tiny_settings(tiny_model, database), "/multi", *["x" * 9] * 11)


def test_a_signal_in_a_message_of_lines(tiny_model: Path, database: Path) -> None:
    """Half a message is not sent."""
    settings = tiny_settings(tiny_model, database)

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    run = run_script(settings, "/multi", "half", after=(0.0, interrupt))
    assert (run.stdout, run.code) == ("", 130)


def test_one_question(tiny_model: Path, database: Path) -> None:
    """What wants more lines, or an input line, is refused where there is one question."""
    settings = tiny_settings(tiny_model, database)
    for line, said in (("/multi", "/multi is for lines"), ("/edit 1", "/edit N TEXT")):
        run = run_one(settings, line)
        [refused] = run.turns
        assert said in refused["error"]["message"]
        assert run.code == 1
    assert run_one(settings, "/exit").code == 0
    assert len(run_one(settings, "one").turns) == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"response_format": ResponseFormat("regex", "(")}, "'regex' cannot be used"),
        ({"response_format": ResponseFormat("json_schema", '{"type":"nope"}')}, "nope"),
        ({"response_format": ResponseFormat("lark", "start: x")}, "unknown name"),
        ({"logit_bias": ((999_999_999, 1.0),)}, "999999999"),
    ],
)
def test_flags_that_only_the_model_can_refuse(
    tiny_model: Path, database: Path, asked: dict[str, Any], said: str
) -> None:
    """The one question of a command line has a usage error then, and leaves no conversation."""
    run = run_one(tiny_settings(tiny_model, database, **asked), "one")
    assert run.code == USAGE
    assert said in run.turns[0]["error"]["message"]
    assert run_one(tiny_settings(tiny_model, database), "/edit 3 x").code == ERROR
    with Store(database) as store:
        assert store.conversations(principal=LOCAL_PRINCIPAL, limit=9) == []


def test_too_long(tiny_model: Path, database: Path) -> None:
    """A megabyte on one line is refused with both numbers, and the conversation goes on."""
    settings = tiny_settings(tiny_model, database)
    run = run_script(settings, "one", "x" * 1_000_000, "two")
    first, refused, last = run.turns
    error = refused["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["n_prompt_tokens"] > 200_000 > error["n_ctx"]  # a lower bound of the million
    assert last["input_ids"][: len(first["input_ids"])] == first["input_ids"]
    assert run.code == 1


def test_no_cache(tiny_model: Path, database: Path) -> None:
    """--no-cache computes every prompt, to the same tokens."""

    def outputs(run: Run) -> list[Any]:
        return [turn["output_ids"] for turn in run.turns]

    lines = ("one", "two", "/regen")
    cached = run_script(tiny_settings(tiny_model, database), *lines)
    computed = run_script(tiny_settings(tiny_model, database, prefix_cache=False), *lines)
    assert outputs(cached) == outputs(computed)
    details = [turn["usage"]["input_tokens_details"] for turn in computed.turns]
    assert [detail["cached_tokens"] for detail in details] == [0, 0, 0]


def test_the_engine_fails(
    tiny_model: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that met it fails, and no further one is stored for nobody to answer."""
    settings = tiny_settings(tiny_model, database)
    step = Engine.step

    def fail_in_the_second_turn(engine: Engine) -> list[TokenEvent]:
        if engine.snapshot().counters.requests:
            raise MemoryError("no room for this step")
        return step(engine)

    monkeypatch.setattr(Engine, "step", fail_in_the_second_turn)
    run = run_script(settings, "one", "two", "three", "four")
    assert [turn["status"] for turn in run.turns] == ["incomplete", "failed"]
    assert run.turns[1]["error"]["code"] == "engine_failed"
    assert run.stderr.splitlines() == [
        "your message is kept; `radixchat chat -c /regen` asks for its answer again"
    ]
    assert run.code == 1
    assert [m.text for m in messages_of(settings) if m.role == "user"] == ["one", "two"]
