"""`radixchat sessions list|show|search|export`: what leaves everything as it is.

From a file or from a server, with the same output. Knows neither: a ConversationSource is given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line, safe_json, without_controls
from radixchat.chat_cli.conversation_names import all_conversations
from radixchat.chat_cli.conversation_source import ConversationSource, find
from radixchat.chat_cli.conversation_text import branches_of, text_of
from radixchat.chat_cli.sessions_run import Place, place_flags, run_on
from radixchat.chat_cli.shell_completion import conversations, files
from radixchat.chat_cli.table import show_rows
from radixchat.chat_cli.value_types import Text
from radixchat.server.heading import heading
from radixchat.server.protocol import (
    ConversationView,
    InvalidRequest,
    MessageView,
    TreeMessage,
)

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams

_COLUMNS = ("ID", "TURNS", "CHANGED", "TITLE")

_json_flag = click.option("--json", "as_json", is_flag=True, help="A JSON object per line.")


@click.command("list", cls=ConfiguredCommand)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many.")
@_json_flag
@place_flags
def list_sessions(limit: int | None, as_json: bool, **values: Any) -> None:
    """List them, the last changed first."""

    async def work(source: ConversationSource, streams: Streams) -> int:
        views = await all_conversations(source, limit)
        if as_json:
            for view in views:
                _write_json(asdict(view))
        else:
            rows = [_row(view) for view in views]
            show_rows(_COLUMNS, rows, to_terminal=streams.answers.is_terminal)
        if not views:
            streams.notes.note("there is no conversation")
        return exit_codes.OK

    run_on(Place.take(values), work)


@click.command(cls=ConfiguredCommand)
@click.argument("id_", metavar="[ID]", type=Text(), required=False, shell_complete=conversations)
@click.option("--tree", is_flag=True, help="All branches, a line per message, with its id.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the messages' ids.")
@place_flags
def show(id_: str | None, tree: bool, as_json: bool, **values: Any) -> None:
    """Print a conversation, from its beginning to its end.

    Without ID the one used last.
    """

    async def work(source: ConversationSource, streams: Streams) -> int:
        (conversation,) = await chosen(source, [id_] if id_ else [])
        messages: Sequence[MessageView | TreeMessage]
        if tree:
            messages = branches = await source.tree(conversation)
            text = branches_of(branches)
        else:
            messages = await source.messages(conversation)
            text = text_of(messages)
        if as_json:
            view = asdict(await source.conversation(conversation))
            _write_json({**view, "messages": [asdict(message) for message in messages]})
            return exit_codes.OK
        _write(text)
        if not messages:
            streams.notes.note(f"{conversation} has no message")
        return exit_codes.OK

    run_on(Place.take(values), work)


@click.command(cls=ConfiguredCommand)
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@_json_flag
@place_flags
def search(words: tuple[str, ...], limit: int, as_json: bool, **values: Any) -> None:
    """Find messages.

    They have all WORDS, or words that begin so; "a phrase" is found as it is.
    """

    if not any(word.strip() for word in words):
        raise click.UsageError("there is no word to look for")

    async def work(source: ConversationSource, streams: Streams) -> int:
        for hit in await source.search(" ".join(words), limit):
            if as_json:
                _write_json(asdict(hit))
            else:
                click.echo(f"{hit.conversation}\t{hit.role}\t{neutral_line(hit.snippet)}")
        return exit_codes.OK

    run_on(Place.take(values), work)


@click.command(cls=ConfiguredCommand)
@click.argument("ids", type=Text(), nargs=-1, shell_complete=conversations)
@click.option("--all", "everything", is_flag=True, help="All conversations.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "markdown", "llm"]),
    default="json",
    show_default=True,
    help="json: all of it, a line each; markdown: to be read; llm: its logs.db.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=files,
    help="A new file, which only you can read.",
)
@place_flags
def export(
    ids: tuple[str, ...], everything: bool, kind: str, output: str | None, **values: Any
) -> None:
    """Write conversations out.

    Those that begin with one of IDS; without any the one used last.
    """
    if everything and ids:
        raise click.UsageError("--all and IDS say different things")
    if kind == "llm" and output is None:
        raise click.UsageError("a logs.db is a file: name it with -o")
    path = None if output is None else Path(output).expanduser()
    place = Place.take(values)
    if kind == "llm" and place.url is not None:
        raise click.UsageError("a logs.db is made of a database here, not of a server's")

    async def work(source: ConversationSource, streams: Streams) -> int:
        if everything:
            which = [view.id for view in await all_conversations(source)]
        else:
            which = await chosen(source, ids)
        end = "\n" if kind == "markdown" else ""
        if path is None:
            for conversation in which:
                text = await source.export(conversation, kind)
                _write((safe_json(text) if kind == "json" else text).rstrip("\n") + "\n" + end)
            return exit_codes.OK
        if kind == "llm":
            from radixchat.server.stored_conversations import StoredConversations

            assert isinstance(source, StoredConversations), "it is not asked of a server"
            turns = await source.export_llm(path, which)
            streams.notes.note(f"{len(which)} conversations, {turns} turns")
            return exit_codes.OK
        from radixchat.server.new_file import new_file

        with new_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
            for conversation in which:
                text = await source.export(conversation, kind)
                file.write(text.rstrip("\n") + "\n" + end)
        return exit_codes.OK

    run_on(place, work)


async def chosen(source: ConversationSource, ids: Sequence[str]) -> list[str]:
    """The full ids meant, each once; of none the last. Raises as `find` does."""
    if ids:
        return list(dict.fromkeys([await find(source, id_) for id_ in ids]))
    latest = await source.latest_conversation()
    if latest is None:
        raise InvalidRequest("no conversation was used yet")
    return [latest]


def _row(view: ConversationView) -> tuple[str, ...]:
    day = datetime.fromtimestamp(view.updated_at, UTC).date().isoformat()
    return (view.id, str(view.num_turns), day, neutral_line(heading(view.title, view.opening)))


def _write(text: str) -> None:
    """Without control characters: a pipe often ends at a terminal."""
    click.echo(without_controls(text), nl=False)


def _write_json(values: dict[str, Any]) -> None:
    click.echo(safe_json(json.dumps(values, ensure_ascii=False)))
