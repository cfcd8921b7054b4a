"""`radixchat sessions delete|fork`: what makes conversations, or ends them.

In a file or at a server. Knows neither: a ConversationSource is given.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.conversation_source import ConversationSource
from radixchat.chat_cli.sessions_read import chosen
from radixchat.chat_cli.sessions_run import Place, place_flags, run_on
from radixchat.chat_cli.shell_completion import conversations
from radixchat.chat_cli.value_types import Text
from radixchat.server.heading import heading
from radixchat.server.protocol import ConversationLocked, ConversationView, InvalidRequest

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams


@click.command(cls=ConfiguredCommand)
@click.argument("ids", type=Text(), nargs=-1, required=True, shell_complete=conversations)
@click.option("-y", "--yes", is_flag=True, help="Do not ask, on a terminal.")
@place_flags
def delete(ids: tuple[str, ...], yes: bool, **values: Any) -> None:
    """Delete conversations, and print their ids.

    What a fork of them has too stays. None is deleted if one of IDS is unknown, or is being
    answered. On a terminal you are asked before each.
    """

    async def work(source: ConversationSource, streams: Streams) -> int:
        views = [await source.conversation(id_) for id_ in await chosen(source, ids)]
        for view in views:
            if view.running is not None:
                raise ConversationLocked(f"{view.id} is being answered; it was not deleted", 0)
        asks = not yes and sys.stdin is not None and sys.stdin.isatty()
        for view in views:
            if not asks or click.confirm(f"delete {_described(view)}?", err=True):
                await source.delete_conversation(view.id)
                click.echo(view.id)
        return exit_codes.OK

    run_on(Place.take(values), work)


@click.command(cls=ConfiguredCommand)
@click.argument("id_", metavar="[ID]", type=Text(), required=False, shell_complete=conversations)
@click.option(
    "--at",
    metavar="N|ID",
    help="As the conversation was after its turn N, or at the message or response of that id.",
)
@click.option("--name", metavar="NAME", default="", help="What the new one is called.")
@place_flags
def fork(id_: str | None, at: str | None, name: str, **values: Any) -> None:
    """Make a second conversation with the same history, and print its id.

    Without ID of the one used last. Nothing is copied, and nothing is computed again.
    """

    async def work(source: ConversationSource, streams: Streams) -> int:
        (conversation,) = await chosen(source, [id_] if id_ else [])
        place = at
        if at is not None and at.isascii() and at.isdecimal():
            place = await _after_turn(source, conversation, int(at))
        made = await source.fork_conversation(conversation, at=place, title=name)
        click.echo(made.id)
        return exit_codes.OK

    run_on(Place.take(values), work)


async def _after_turn(source: ConversationSource, conversation: str, turn: int) -> str:
    """The last message of that turn. Raises InvalidRequest: there is none."""
    last, turns = None, 0
    for message in await source.messages(conversation):
        turns += message.role == "user"
        if turns == turn:
            last = message.id
    if turn == 0 or last is None:
        raise InvalidRequest(f"{conversation} has no turn {turn}; it has {turns}, counted from 1")
    return last


def _described(view: ConversationView) -> str:
    turns = "1 turn" if view.num_turns == 1 else f"{view.num_turns} turns"
    return f"{view.id} ({neutral_line(heading(view.title, view.opening))}, {turns})"
