"""The command `radixchat`: its subcommands, each imported when it is called.

Knows no flag. Nothing that takes long is imported here: `--help` and `--version` must be instant.
"""

from __future__ import annotations

import contextlib
import os
import sys

import click

from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.exit_codes import INTERRUPTED, help_epilog
from radixchat.chat_cli.models_command import models

_SIGNALLED = 128


@click.group(
    help="A self-hosted chat that never pays twice for history.",
    epilog=help_epilog(),
    commands=[chat, models],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="radixchat", message="%(prog)s %(version)s")
def cli() -> None:
    """Dispatch to a subcommand."""


def main() -> None:
    """The entry point: run the command line and exit with its code."""
    code = _run()
    if code >= _SIGNALLED:
        # Told to go: no waiting for the engine's threads, nor for torch to take itself apart.
        _flush()
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    try:
        return int(cli.main(prog_name="radixchat", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except SystemExit as error:
        return int(error.code or 0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
