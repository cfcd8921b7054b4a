"""`radixchat models`: pull, list, path. Knows click; the model store does the work.

Standard output has what a script wants: a path, or for `list` a line per model of tab-separated
name, bytes and path; on a terminal the same, aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.configured_command import configured
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.guard import run_guarded
from radixchat.chat_cli.shell_completion import installed_models

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams

_MEGABYTE = 1_000_000

_name_argument = click.argument(
    "name", required=False, envvar="RADIXCHAT_MODEL", shell_complete=installed_models
)


@click.group(help="Model files on this machine.")
def models() -> None:
    """Dispatch to a subcommand."""


@models.command()
@_name_argument
def pull(name: str | None) -> None:
    """Fetch a model, unless it is there, and print its path.

    The first time on a machine, what computes with it is compiled, too.
    """
    from radixchat.chat_cli.model_download import find_or_fetch
    from radixchat.engine.model_store import ModelStore

    def work(streams: Streams) -> int:
        from radixchat.server.local import LocalSettings, prepare

        model = _model(name)
        path = find_or_fetch(ModelStore.default(), model, streams.errors, streams.notes)
        prepare(LocalSettings(model), streams.notes.note)
        click.echo(path)
        return exit_codes.OK

    run_guarded(work)


@models.command("list")
def list_models() -> None:
    """List the installed models."""
    from radixchat.engine.model_store import ModelStore

    def work(streams: Streams) -> int:
        rows = [(m.name, m.bytes, m.path) for m in ModelStore.default().list()]
        width = max((len(neutral_line(name)) for name, _, _ in rows), default=0)
        for name, size, path in rows:
            if streams.answers.is_terminal:
                megabytes = f"{size / _MEGABYTE:,.0f} MB"
                where = neutral_line(str(path))
                click.echo(f"{neutral_line(name):<{width}}  {megabytes:>10}  {where}")
            else:
                click.echo(f"{name}\t{size}\t{path}")
        if not rows:
            streams.notes.note("no model is installed; `radixchat models pull` fetches one")
        return exit_codes.OK

    run_guarded(work)


@models.command()
@_name_argument
def path(name: str | None) -> None:
    """Print the path of an installed model."""
    from radixchat.engine.model_store import ModelStore

    def work(streams: Streams) -> int:
        model = _model(name)
        found = ModelStore.default().find(model)
        if found is None:
            streams.notes.error(
                f"{model} is not installed; `radixchat models pull {model}` fetches it"
            )
            return exit_codes.UNAVAILABLE
        click.echo(found)
        return exit_codes.OK

    run_guarded(work)


def _model(name: str | None) -> str:
    """The model meant: the argument or the variable, the configuration file's, the default."""
    if name is not None:
        return name
    from radixchat.engine.model_store import DEFAULT_MODEL

    return str(configured(chat, click.get_current_context()).get("model", DEFAULT_MODEL))
