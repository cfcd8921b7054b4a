"""`radixchat doctor`: what it finds, that it changes nothing and tells no secret."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from radixchat.chat_cli import doctor_machine
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import config_file, database_file, history_file
from radixchat.engine import trial, warm_up
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.chat_cli.conftest import KEPT
from radixchat.tests.server.turns import ME, change, say


def doctor(*flags: str) -> tuple[int, dict[str, dict[str, str]], list[str]]:
    """The exit code, the sections, and the problems with their help, each on one line."""
    result = CliRunner().invoke(cli, ["doctor", "--json", *flags])
    found = json.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    problems = [f"{problem['what']}: {problem['help']}" for problem in found["problems"]]
    return result.exit_code, found["sections"], problems


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs leave of memory and disk is not what is tested."""
    monkeypatch.setattr(doctor_machine, "_LITTLE_MEMORY", 0)
    monkeypatch.setattr(doctor_machine, "_LITTLE_ROOM", 0)


@pytest.fixture
def installed(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that a chat would take."""
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the two turns of the very small model."""
    monkeypatch.setattr(warm_up, "compiled_folder", lambda: None)


@pytest.fixture
def database() -> Path:
    """One conversation, where chats look for it."""
    with Store(database_file()) as store:
        say(store, store.create_conversation(principal=ME))
    return database_file()


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.usefixtures("installed")
def test_all_is_well(database: Path, tmp_path: Path) -> None:
    """Every part is on the page, the engine is tried, and nothing is written."""
    before = contents(tmp_path)
    code, sections, problems = doctor()
    assert (code, problems) == (0, [])
    assert list(sections) == [
        *("software", "machine", "terminal", "variables", "files", "models", "engine")
    ]
    assert sections["files"]["conversations"] == "1"
    assert sections["files"]["verified"] == "all is well"
    assert sections["engine"]["self-test"] == "arithmetic is exact"
    assert sections["engine"]["cache"] == "a second turn found 57 of 57 tokens of the first"
    assert "4,096 tokens" in sections["engine"]["context"]
    assert "torch" in sections["software"]["packages"]
    assert f"of {os.cpu_count()}" in sections["machine"]["cores"]
    assert contents(tmp_path) == before
    assert database.exists()


@pytest.mark.usefixtures("quick", "installed")
def test_a_page_for_people() -> None:
    """The same as text; where nothing was ever used, that is no problem."""
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "software"
    assert lines[-1] == "all is well"
    assert not config_file().exists()
    assert not database_file().exists()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("found", "complaints"),
    [
        ({"inexact": "row 3 has other bits"}, ["not exact on this machine: row 3 has"]),
        ({"cached_tokens": 0}, ["found 0 of 57 tokens cached"]),
        ({"is_same_answer": False}, ["an answer depends on what is cached"]),
    ],
)
def test_an_engine_that_is_ill(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], complaints: list[str]
) -> None:
    """Each kind of illness is a problem of its own, with what would help."""
    well = {
        "inexact": None,
        "input_tokens": 108,
        "cached_tokens": 57,
        "reusable_tokens": 57,
        "is_same_answer": True,
    }
    monkeypatch.setattr(trial, "try_engine", lambda _: trial.Trial(**{**well, **found}))
    code, _, problems = doctor()
    assert code == 1
    assert len(problems) == len(complaints)
    assert all(text in problem for text, problem in zip(complaints, problems, strict=True))


@pytest.mark.usefixtures("quick", "installed")
def test_files_that_are_ill(database: Path) -> None:
    """A damaged database, files that others can read, a wrong configuration: each is told."""
    change(database, "UPDATE message SET text = 'other' WHERE role = 'user'")
    database.chmod(0o644)
    history_file().parent.mkdir(parents=True)
    history_file().touch(0o644)
    config_file().parent.mkdir()
    config_file().write_text("modle = 'x'")
    code, sections, problems = doctor()
    assert code == 1
    expected = (
        *("modle: unknown key", "does not match its content"),
        *("chmod 600", "chmod 600"),
    )
    assert len(problems) == len(expected)
    assert all(text in problem for text, problem in zip(expected, problems, strict=True))
    assert "1 problems" in sections["files"]["verified"]
    database.write_bytes(b"no database at all, but long enough to be looked at" * 9)
    assert any(f"{database} cannot be read" in problem for problem in doctor()[2])


@pytest.mark.usefixtures("quick")
def test_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what may be one, or is somebody's own words, only that it is set."""
    monkeypatch.setenv("RADIXCHAT_KEY", "12345")
    monkeypatch.setenv("RADIXCHAT_SYSTEM", "about my private life")
    monkeypatch.setenv("RADIXCHAT_URL", "ws://user:password@host")
    monkeypatch.setenv("RADIXCHAT_TOP_P", "0.5")
    monkeypatch.setenv("RADIXCHAT_DEVICE", "cpu")
    monkeypatch.setenv("RADIXCHAT_TOP_Q", "1")
    code, sections, problems = doctor()
    assert code == 1
    told = {k: v for k, v in sections["variables"].items() if k not in KEPT}
    assert told == {
        "RADIXCHAT_CONFIG_DIR": str(config_file().parent),
        "RADIXCHAT_DATA_DIR": str(database_file().parent),
        "RADIXCHAT_DEVICE": "cpu",
        "RADIXCHAT_KEY": "set",
        "RADIXCHAT_SYSTEM": "set",
        "RADIXCHAT_TOP_P": "0.5",
        "RADIXCHAT_TOP_Q": "1",
        "RADIXCHAT_URL": "set, and not valid",
    }
    assert any("RADIXCHAT_TOP_Q is no flag's variable" in problem for problem in problems)
    page = json.dumps([sections, problems])
    assert not any(secret in page for secret in ("12345", "private life", "password"))


@pytest.mark.usefixtures("installed")
def test_two_turns_with_the_model(tmp_path: Path) -> None:
    """--deep: the second finds all of the first, and the conversation is nowhere afterwards."""
    code, sections, problems = doctor("--deep")
    assert (code, problems) == (0, [])
    first, second = sections["two turns"]["first"], sections["two turns"]["second"]
    assert first.startswith("cached 0 of ")
    assert not second.startswith("cached 0 of ")
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("quick")
def test_two_turns_need_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is not fetched for them."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RADIXCHAT_MODEL", "org/none")
    _, sections, problems = doctor("--deep")
    assert sections["models"]["a chat's"] == "org/none, fetched when it is first used"
    assert problems == ["org/none is not here: radixchat models pull org/none"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("quick", "installed")
def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first chat the engine is not tried, which is no problem unless it is asked for."""
    monkeypatch.setenv("RADIXCHAT_DEVICE", "cpu")
    code, sections, problems = doctor()
    assert (code, problems) == (0, [])
    assert "not compiled yet" in sections["engine"]["kernels"]
    assert "not tried" in sections["engine"]["self-test"]
    assert "models pull" in doctor("--deep")[2][0]


def test_a_machine_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little memory and a full disk are problems of their own."""
    monkeypatch.setattr(doctor_machine, "_LITTLE_MEMORY", 1 << 60)
    monkeypatch.setattr(doctor_machine, "_LITTLE_ROOM", 1 << 60)
    section = doctor_machine.machine({"database": tmp_path / "not" / "there"})
    assert len(section.problems) == 1 + Path("/proc/meminfo").exists()
    assert section.facts["room, database"].endswith(" free")


def test_without_torch(tmp_path: Path) -> None:
    """A page all the same, that says so."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so is not there')")
    done = subprocess.run(
        [*COMMAND, "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["problems"][-1]["what"] == (
        "the engine cannot be imported: libtorch.so is not there"
    )
    assert list(found["sections"])[-1] == "engine"
