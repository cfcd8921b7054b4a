"""`radixchat bench`: the benchmarks by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from radixchat.bench.main import SUMMARIES, bench
from radixchat.chat_cli.exit_codes import BROKEN_PIPE, INTERRUPTED
from radixchat.chat_cli.main import cli
from radixchat.tests.bench.trace_files import growing_chats, trace_file
from radixchat.tests.chat_cli.chat_terminal import COMMAND


def test_the_list_of_benchmarks_is_light() -> None:
    """Their names and summaries are there without numpy or torch, and so is replay's help."""
    script = (
        "import sys\nfrom radixchat.chat_cli.main import cli\n"
        "cli.main(['bench', '-h'], standalone_mode=False)\n"
        "assert 'numpy' not in sys.modules\n"
        "cli.main(['bench', 'replay', '-h'], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'rich', 'asyncio'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name, summary in SUMMARIES.items():
        assert f"{name} " in done.stdout
        assert summary in done.stdout


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_benchmark_is_one(name: str) -> None:
    """Each name is a module of the package with a command that explains itself."""
    done = CliRunner().invoke(cli, ["bench", name, "--help"], prog_name="radixchat")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: radixchat bench {name} ")


def test_an_unknown_benchmark() -> None:
    """It is a usage error, whether there is a module of that name or not."""
    for name in ("nothing", "trace", "main"):
        done = CliRunner().invoke(bench, [name])
        assert done.exit_code == 2
        assert f"No such command '{name}'" in done.output


def test_the_groups_are_the_same() -> None:
    """What the client shows is what the package has."""
    (client,) = (command for name, command in cli.commands.items() if name == "bench")
    assert isinstance(client, click.Group)
    context = click.Context(client)
    assert client.list_commands(context) == list(SUMMARIES)
    assert client.get_command(context, "replay") is bench.get_command(context, "replay")


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    """Output that nobody reads ends the command quietly, as in the rest of radixchat."""
    trace = trace_file(tmp_path / "t", growing_chats(2, 2))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "bench", "replay", trace],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    """No traceback, no half of a report, and the shell's exit code."""
    trace = Path(trace_file(tmp_path / "t", growing_chats(400, 30)))
    process = subprocess.Popen(
        [*COMMAND, "bench", "replay", "-", "--html", str(tmp_path / "report.html")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdin is not None
    process.stdin.write(trace.read_bytes())
    process.stdin.close()  # it has read nearly all of it, and begins to compute
    process.stdin = None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.strip()) == (INTERRUPTED, b"", b"")
    assert set(tmp_path.iterdir()) == {trace}


def test_a_killed_replay_leaves_no_copy_of_standard_input(tmp_path: Path) -> None:
    """SIGTERM while it reads: the spooled traffic goes, and the exit code tells."""
    process = subprocess.Popen(
        [*COMMAND, "bench", "replay", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    deadline = time.monotonic() + 60
    while not any(tmp_path.iterdir()):
        assert time.monotonic() < deadline, "nothing was spooled"
        time.sleep(0.05)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert not any(tmp_path.iterdir())
