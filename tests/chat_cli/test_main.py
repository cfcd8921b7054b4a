"""The command `radixchat`: instant help, version, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from click.testing import CliRunner

from radixchat.chat_cli.exit_codes import MEANINGS
from radixchat.chat_cli.main import cli


def test_help_lists_commands_and_exit_codes() -> None:
    """The help shows the subcommands and every exit code."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "chat " in result.output
    assert "models " in result.output
    assert all(f"{code:>3}  {meaning}" in result.output for code, meaning in MEANINGS.items())


def test_help_is_light() -> None:
    """`--help` and `--version` import nothing that takes long."""
    script = (
        "import sys\nfrom radixchat.chat_cli.main import cli\n"
        "for arguments in (['--help'], ['chat', '--help'], ['--version']):\n"
        "    cli.main(arguments, standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'numpy', 'prompt_toolkit', 'rich', 'asyncio'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert version("radixchat") in done.stdout


def test_no_command() -> None:
    """Without a command the help is shown, and it is a usage error."""
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Usage:" in result.output


def test_unknown_command() -> None:
    """An unknown command is a usage error."""
    assert CliRunner().invoke(cli, ["chatt"]).exit_code == 2
