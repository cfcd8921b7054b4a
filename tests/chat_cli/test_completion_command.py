"""`radixchat completion`: scripts that real shells take, and what they complete."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from radixchat.chat_cli.main import cli
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.server.turns import ME, say


def completed(*words: str) -> list[str]:
    """What the last word can become, as the shell's script is told."""
    *before, incomplete = words
    found = ShellComplete(cli, {}, "radixchat", "_X").get_completions(before, incomplete)
    return [item.type if item.type != "plain" else item.value for item in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_goes_to_standard_output(shell: str) -> None:
    """It asks `radixchat` itself, through click's variable."""
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_RADIXCHAT_COMPLETE={shell}_complete" in result.stdout
    assert CliRunner().invoke(cli, ["completion", "tcsh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash(tmp_path: Path) -> None:
    """It sources the script, and completes commands, verbs, flags and choices."""
    program = tmp_path / "radixchat"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    lines = ("radixchat ses", "radixchat sessions ex", "radixchat chat --ev")
    script = [f"PATH={shlex.quote(str(tmp_path))}:$PATH", "source <(radixchat completion bash)"]
    for line in lines:
        number = len(line.split()) - 1
        script.append(f"COMP_WORDS=({line}) COMP_CWORD={number} COMPREPLY=()")
        script.append('_radixchat_completion radixchat; echo "${COMPREPLY[@]}"')
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["sessions", "export", "--eviction"]
    assert done.stderr == ""


def test_settings_of_o() -> None:
    """-o completes its names; they are no flags, and none is offered as one."""
    assert completed("chat", "-o", "rep") == ["repetition_penalty"]
    assert completed("chat", "--ty") == []
    assert "--temperature" in completed("chat", "--te")
    assert completed("chat", "--eviction", "t") == ["tlru"]


def test_files_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell completes files; models are those that are here, or files."""
    folder = tmp_path / "cache" / "models" / "hub" / "org" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    for flag in ("--attach", "--db", "--schema"):
        assert completed("chat", flag, "x") == ["file"]
    assert completed("chat", "-m", "org/") == ["org/tiny"]
    assert completed("models", "path", "org/") == ["org/tiny"]
    assert completed("chat", "-m", "./x") == ["file"]


def test_conversations(tmp_path: Path) -> None:
    """Ids of the database that is named, the last used first; none where there is none."""
    database = tmp_path / "s.db"
    assert completed("sessions", "show", "--db", str(database), "") == []
    assert not database.exists()
    with Store(database) as store:
        made = [store.create_conversation(principal=ME) for _ in range(2)]
        say(store, made[0])
        say(store, made[1])
    assert completed("sessions", "show", "--db", str(database), "conv_") == made[::-1]
    assert completed("chat", "--db", str(database), "--session", made[0]) == [made[0]]
    assert completed("sessions", "delete", "--url", "ws://nowhere", "conv_") == []
    database.write_text("no database")
    assert completed("sessions", "show", "--db", str(database), "conv_") == []


def test_every_command_completes() -> None:
    """The root's commands are offered as its help lists them."""
    assert completed("") == sorted(cli.list_commands(click.Context(cli)))
