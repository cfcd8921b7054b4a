"""The command `radixchat`: its subcommands, each imported when it is called.

Knows no flag. Nothing that takes long is imported here: `--help` and `--version` must be instant.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys

import click

from radixchat.bench.main import bench
from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.cache_command import cache
from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.completion_command import completion
from radixchat.chat_cli.doctor_command import doctor
from radixchat.chat_cli.guard import guarded
from radixchat.chat_cli.keys_command import keys
from radixchat.chat_cli.models_command import models
from radixchat.chat_cli.paths_command import paths
from radixchat.chat_cli.serve_command import serve
from radixchat.chat_cli.sessions_command import sessions
from radixchat.chat_cli.told_size import forget_absurd_size

_SIGNALLED = 128
# How long torch's threads spin for each other before they sleep; libgomp reads it when torch is
# imported, and any subcommand may be the first to do that. libgomp's default, about 1 ms, held a
# step up for whole time slices on two cores, one of them busy with another program: 0.3-1.8
# tokens a second instead of 13. The price is 15.4 → 14.0 on an idle machine.
_SHORT_SPIN = ("GOMP_SPINCOUNT", "1000")


@click.group(
    help="A self-hosted chat that never pays twice for history.",
    epilog=exit_codes.help_epilog(),
    commands=[chat, serve, sessions, keys, models, cache, paths, completion, doctor, bench],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="radixchat", message="%(prog)s %(version)s")
def cli() -> None:
    """Dispatch to a subcommand."""


def main() -> None:
    """The entry point: run the command line and exit with its code."""
    os.environ.setdefault(*_SHORT_SPIN)
    forget_absurd_size(os.environ)
    code = _delivered(guarded(_run, _complain))
    if code >= _SIGNALLED:
        # Told to go: no waiting for the engine's threads, nor for torch to take itself apart.
        os._exit(code)
    if "triton" in sys.modules:
        # Its bindings tell of everything that is left of them when Python ends, as of leaks; what
        # `no_collection` has frozen is.
        gc.unfreeze()
    sys.exit(code)


def _run() -> int:
    stdout = sys.stdout
    try:
        return int(cli.main(prog_name="radixchat", standalone_mode=False) or 0)
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return error.exit_code
    except click.Abort:
        return exit_codes.INTERRUPTED
    except SystemExit as error:
        # click exits with 1 when the reader of a help text is gone, after it has put a stream that
        # never complains in the place of this one.
        return exit_codes.BROKEN_PIPE if sys.stdout is not stdout else int(error.code or 0)


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"error: {text}", err=True)


def _delivered(code: int) -> int:
    """The exit code once all output has left the process; what cannot leave is dropped here.

    Who wrote it has told of it. Python would find it again at its very end, and exit with 120.
    """
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
            code = code or exit_codes.ERROR
    return code
