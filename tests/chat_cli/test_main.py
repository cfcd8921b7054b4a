"""The command `radixchat`: instant help, version, and its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.chat_cli.exit_codes import BROKEN_PIPE, ERROR, MEANINGS
from radixchat.chat_cli.main import cli
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.server.turns import ME, say
from radixchat.tests.tiny_neox import tiny_neox_directory


def run(stdout: int, *arguments: str) -> tuple[int, str]:
    """The exit code and standard error of a process that writes to `stdout`, buffered as usual."""
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


_FULL = "error: standard output cannot be written: No space left on device\n"


@contextmanager
def full_device() -> Iterator[int]:
    """Where nothing can be written."""
    with Path("/dev/full").open("w") as device:
        yield device.fileno()


@contextmanager
def abandoned_pipe() -> Iterator[int]:
    """Where nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def test_help_lists_commands_and_exit_codes() -> None:
    """The help shows the subcommands and every exit code."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "chat " in result.output
    assert "models " in result.output
    assert "bench " in result.output
    assert all(f"{code:>3}  {meaning}" in result.output for code, meaning in MEANINGS.items())


def imported_by(*command_lines: tuple[str, ...]) -> set[str]:
    """The top-level names that a process has imported when it has run all of them."""
    script = (
        "import sys\nfrom radixchat.chat_cli.main import cli\n"
        f"for arguments in {[list(line) for line in command_lines]}:\n"
        "    try:\n        cli.main(arguments, standalone_mode=False)\n"
        "    except SystemExit as left:\n        assert not left.code, (arguments, left.code)\n"
        "print('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert version("radixchat") in done.stdout
    return set(done.stdout.splitlines()[-1].split())


def test_help_is_light() -> None:
    """`--help` and `--version`, of every command, import nothing that takes long."""
    commands = [(), *((name,) for name in cli.commands), ("sessions", "list"), ("sessions", "show")]
    found = imported_by(*((*command, "--help") for command in commands), ("--version",))
    heavy = {"torch", "transformers", "numba", "numpy", "prompt_toolkit", "rich", "asyncio"}
    assert found & (heavy | {"sqlite_utils", "starlette", "websockets", "pydantic"}) == set()


def test_sessions_are_light(tmp_path: Path) -> None:
    """What only looks at a database loads no model, no server and no prompt."""
    database = tmp_path / "s.db"
    with Store(database) as store:
        say(store, store.create_conversation(principal=ME))
    here = ("-d", str(database))
    found = imported_by(
        ("sessions", "list", *here),
        ("sessions", "show", *here),
        ("sessions", "show", "--tree", *here),
        ("sessions", "search", "hello", *here),
        ("sessions", "export", *here),
        ("sessions", "fork", *here),
        ("paths",),
        ("completion", "zsh"),
        ("--version",),
    )
    heavy = {"torch", "transformers", "tokenizers", "numba", "llvmlite", "triton", "jinja2"}
    heavy |= {"prompt_toolkit", "starlette", "uvicorn", "websockets", "pydantic"}
    assert found & heavy == set()


def test_no_command() -> None:
    """Without a command the help is shown, and it is a usage error."""
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Usage:" in result.output


def test_unknown_command() -> None:
    """An unknown command is a usage error."""
    assert CliRunner().invoke(cli, ["chatt"]).exit_code == 2


@pytest.mark.slow
def test_the_end_is_quiet_with_a_model_of_transformers(tmp_path: Path) -> None:
    """A question is answered, after one note, and what was imported for it leaves no message."""
    folder = tiny_neox_directory(tmp_path / "neox")
    with Path(os.devnull).open("w") as nowhere:
        code, said = run(
            nowhere.fileno(),
            *("chat", "-m", str(folder), "--db", str(tmp_path / "c.db"), "--device", "cpu"),
            *("--threads", "1", "--max-tokens", "4", "--temperature", "0", "Hello"),
        )
    assert code == 0
    notes = [line for line in said.splitlines() if not line.startswith("note: compil")]
    assert len(notes) == 2, said
    assert "computed by transformers" in notes[0]
    assert notes[1].startswith("cached 0/")


WRITING = (["--help"], ["--version"], ["chat", "--help"], ["models", "path"], ["models", "list"])


@pytest.fixture
def installed(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that every command finds."""
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    hub = tmp_path / "cache" / "models" / "hub" / "org"
    hub.mkdir(parents=True)
    (hub / "tiny").symlink_to(tiny_model)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_output_that_cannot_be_written(arguments: list[str]) -> None:
    """A full device is one line of error, an abandoned pipe a quiet end; neither a traceback."""
    with full_device() as device:
        code, errors = run(device, *arguments)
    assert (code, errors) == (ERROR, _FULL)
    with abandoned_pipe() as pipe:
        assert run(pipe, *arguments) == (BROKEN_PIPE, "")


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
def test_an_answer_that_cannot_be_written(json: list[str]) -> None:
    """The same holds for a chat."""
    with full_device() as device:
        code, errors = run(device, "chat", "--max-tokens", "2", *json, "why")
    assert (code, errors) == (ERROR, _FULL)


def test_threads_spin_shortly_whatever_imports_torch() -> None:
    """The variable that libgomp reads is set before any subcommand runs; the user's own stays."""
    script = (
        "import os, sys; from radixchat.chat_cli import main\n"
        "main.cli.callback = lambda: print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)\n"
        "sys.argv[1:] = ['models', 'list']\n"
        "main.main()\n"
    )
    others = {key: text for key, text in os.environ.items() if key != "GOMP_SPINCOUNT"}
    for own, seen in (({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        output = subprocess.check_output(
            [sys.executable, "-c", script], env={**others, **own}, stderr=subprocess.DEVNULL
        )
        assert output.splitlines()[0] == f"{seen} False".encode()
