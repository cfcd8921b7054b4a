"""A run from its settings to its exit code: what is asked, which conversation, what fails."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from radixchat.chat_cli.run import run_chat
from radixchat.chat_cli.settings import ChatSettings
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.chat_cli.scripted import messages_of, tiny_settings
from radixchat.tests.slow_steps import slow_command


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    return tiny_settings(tiny_model, tmp_path / "data" / "sessions.db", json=False)


def pipe_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input is these bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def asked(settings: ChatSettings) -> list[str]:
    """The user's messages in the last conversation."""
    return [message.text for message in messages_of(settings) if message.role == "user"]


@pytest.mark.parametrize(
    ("stdin", "question", "message"),
    [
        (b"", "why", "why"),
        (b"\n\n", "why", "why"),
        (b"a = 1\nb = 2\n", "what is this", "a = 1\nb = 2\n\nwhat is this"),
        (b"two\nlines\n", "-", "two\nlines\n"),
        (b"/exit", "-", "/exit"),
        (b"caf\xe9", "-", "caf\ufffd"),
    ],
)
def test_question(
    settings: ChatSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: bytes,
    question: str,
    message: str,
) -> None:
    """A question is answered once; piped input is its context, or with `-` the question."""
    pipe_in(monkeypatch, stdin)
    assert run_chat(settings, question) == 0
    assert asked(settings) == [message]
    output = capsys.readouterr()
    assert output.out.endswith("\n")
    assert "cached 0/" in output.err
    assert ("not UTF-8" in output.err) == (b"\xe9" in stdin)


def test_closed_standard_input(
    settings: ChatSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a standard input there is no context, and no line."""
    monkeypatch.setattr(sys, "stdin", None)
    assert run_chat(settings, "why") == 0
    capsys.readouterr()
    assert run_chat(settings, None) == 0
    assert capsys.readouterr() == ("", "")
    assert asked(settings) == ["why"]


def with_changes(settings: ChatSettings, **changes: object) -> ChatSettings:
    values = {name: getattr(settings, name) for name in ChatSettings.__slots__}
    return ChatSettings(**{**values, **changes})


def test_continue(
    settings: ChatSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--continue and --session go on with a conversation, and say with which on standard error."""
    pipe_in(monkeypatch, b"")
    assert run_chat(with_changes(settings, json=True), "one") == 0
    conversation = json.loads(capsys.readouterr().out)["conversation"]
    assert run_chat(with_changes(settings, continue_last=True), "two") == 0
    output = capsys.readouterr()
    assert f"note: continuing {conversation}, 1 turn\n" in output.err
    assert output.out.count("\n") >= 1
    assert run_chat(with_changes(settings, session=conversation), "/regen") == 0
    assert asked(settings) == ["one", "two"]


def test_nothing_to_continue(
    settings: ChatSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--continue with no conversation begins one, and says so."""
    pipe_in(monkeypatch, b"")
    assert run_chat(with_changes(settings, continue_last=True), "one") == 0
    assert "no conversation to continue" in capsys.readouterr().err


def test_unknown_session(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """An id that is not there is an error with the id; nothing is created."""
    code = run_chat(with_changes(settings, session="conv_nope"), None)
    output = capsys.readouterr()
    assert (code, output.out) == (1, "")
    assert output.err.startswith("error: ")
    assert "conv_nope" in output.err


def test_no_model(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that does not exist exits with 69 and says what would do."""
    code = run_chat(with_changes(settings, model="./nowhere.gguf"), None)
    output = capsys.readouterr()
    assert (code, output.out) == (69, "")
    assert "nowhere.gguf" in output.err


def test_impossible_setting(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """A setting that the engine refuses is a usage error."""
    assert run_chat(with_changes(settings, pool_tokens=1), None) == 2
    assert "pool_tokens" in capsys.readouterr().err


def test_unusable_database(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """A database that cannot be opened is an error with its path."""
    settings.database.parent.mkdir()
    settings.database.write_text("this is not a database, it is a text of some length" * 20)
    assert run_chat(settings, None) == 1
    assert str(settings.database) in capsys.readouterr().err


@pytest.mark.slow
def test_the_reader_goes_away(tiny_model: Path) -> None:
    """`| head -c 1`: the process ends with 141, quietly, without finishing its long answers."""
    process = subprocess.Popen(
        [*slow_command(0.02), "chat", "-m", str(tiny_model), "--threads", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"one\ntwo\nthree\n")
    process.stdin.close()
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tiny_model: Path, closed: str) -> None:
    """A stream that is closed from the start is as good as /dev/null."""
    import shlex

    command = shlex.join([*COMMAND, "chat", "-m", str(tiny_model), "--max-tokens", "2", "why"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {closed}"], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_memory_that_is_short(tiny_model: Path, tmp_path: Path) -> None:
    """A pool for which the process gets no memory exits with 69, and says what would do."""
    import shlex

    pool = 5 * 10**9 // 512  # bytes, to those of a token: more than the process may have
    flags = ["-m", str(tiny_model), "--pool-tokens", str(pool), "--db", str(tmp_path / "s.db")]
    command = shlex.join([*COMMAND, "chat", *flags, "why"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -v 4000000; exec {command}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("error: there is not enough memory for ")
    assert "--pool-tokens" in done.stderr
