"""`radixchat doctor`: one page on what is installed here, what the machine can do, what is wrong.

Knows which parts there are. Nothing is written, fetched or compiled; no secret is told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.checkup import Section, as_object, as_text, looked_at
from radixchat.chat_cli.configured_command import variables_of
from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.guard import run_guarded
from radixchat.chat_cli.paths import disk_cache_folder, places
from radixchat.chat_cli.settings import ChatSettings

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams

_HELP = """Look at this installation, on one page that a bug report can quote.

Versions, the machine, the terminal, the files, the models; what a chat would compute with, whether
its arithmetic is exact here and its cache finds what it should. Nothing is written, and no secret
is told. Exits with 0 if all is well, with 1 if there is a problem, each with what would help.
"""


@click.command("doctor", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--deep", is_flag=True, help="Also two turns with the model, and all of a big file.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, deep: bool) -> None:
    """Print the page, and exit with its code."""
    from radixchat.chat_cli.collection import no_collection

    def work(streams: Streams) -> int:
        with no_collection(), streams.notes.during("looking …"):
            sections = list(_sections(ctx, deep=deep))
        if as_json:
            click.echo(json.dumps(as_object(sections), ensure_ascii=False, indent=2))
        else:
            text = as_text(sections)
            click.echo(neutralise(text) if sys.stdout.isatty() else text)
        wrong = any(section.problems for section in sections)
        return exit_codes.ERROR if wrong else exit_codes.OK

    run_guarded(work, json=as_json)


def _sections(ctx: click.Context, *, deep: bool) -> Iterator[Section]:
    from radixchat.chat_cli.doctor_deep import two_turns
    from radixchat.chat_cli.doctor_engine import engine, models
    from radixchat.chat_cli.doctor_files import Files, files
    from radixchat.chat_cli.doctor_machine import machine
    from radixchat.chat_cli.doctor_software import software
    from radixchat.chat_cli.doctor_terminal import terminal, variables

    settings, error = _settings(ctx)
    found = places()
    where = Files(found["config"], settings.database, found["history"], disk_cache_folder(), error)
    folders = {"database": settings.database.parent, "cache": found["cache"]}
    looks: list[tuple[str, Callable[[], Section]]] = [
        ("software", software),
        ("machine", lambda: machine(folders)),
        ("terminal", terminal),
        ("variables", lambda: variables(variables_of(ctx))),
        ("files", lambda: files(where, deep=deep)),
        ("models", lambda: models(settings)),
        ("engine", lambda: engine(settings)),
    ]
    if deep:
        looks.append(("two turns", lambda: two_turns(settings)))
    for title, look in looks:
        yield looked_at(title, look)


def _settings(ctx: click.Context) -> tuple[ChatSettings, str | None]:
    """Those of a chat without flags; the defaults, and why, where they are not usable."""
    from radixchat.chat_cli.chat_command import chat, resolve
    from radixchat.engine.model_store import DEFAULT_MODEL

    try:
        context = chat.make_context("chat", [], parent=ctx)
        return resolve(context, {k: v for k, v in context.params.items() if k != "words"}), None
    except click.UsageError as error:
        return ChatSettings(DEFAULT_MODEL, places()["database"]), error.format_message()
