"""Runs a chat: what is asked, who answers, prompt or script, how it ends. Knows no turn.

standard input   question   then
any              words      one answer; piped input is put before the words
any              `-`        one answer to all of standard input
terminal         none       a prompt, on standard error if the answers are piped;
                            lines without a prompt if there is no terminal to draw it on
pipe, file       none       lines, each a turn
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
from collections.abc import AsyncIterator

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.client import ChatClient, WaitsForServer, open_client, prepare
from radixchat.chat_cli.collection import no_collection
from radixchat.chat_cli.command_line import HOW_TO_LEAVE, parse
from radixchat.chat_cli.commands import Command, Say
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.guard import guarded
from radixchat.chat_cli.input_lines import MAX_BYTES, InputLines, decode
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.model_download import find_or_fetch
from radixchat.chat_cli.paths import history_file
from radixchat.chat_cli.script import run_lines, run_question
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.streams import STDIN, Streams
from radixchat.chat_cli.tail import show_tail
from radixchat.chat_cli.way_back import way_back
from radixchat.server.protocol import InvalidRequest, MessageView

_PATIENCE_SECONDS = 1.0
# After another signal nobody may be there to read what is said last.
_LEFT_BY_USER = (exit_codes.OK, exit_codes.INTERRUPTED)


def run_chat(settings: ChatSettings, question: str | None) -> int:
    """Chat; the exit code. Raises SystemExit when a signal or a second Ctrl-C ends it early."""
    has_format = settings.answer.response_format is not None
    streams = Streams.of_this_process(json=settings.json, ids=settings.ids, verbatim=has_format)
    prompts = question is None and streams.screen is not None
    with Interrupts(interrupt_leaves=not prompts) as interrupts:

        def work() -> int:
            command = None if question is None else _ask(question, streams)
            if settings.url is not None:
                return asyncio.run(_chat(settings, streams, command, interrupts))
            _ensure_model(settings.model, streams)
            # Torch is imported here, and what a first run compiles is compiled here and not beside
            # the event loop: Ctrl-C ends it at once.
            with streams.notes.during(_loading(settings)), no_collection():
                prepare(settings, streams.notes.note)
            return asyncio.run(_chat(settings, streams, command, interrupts))

        def show(error: str) -> None:
            # A closed terminal ends the run as a signal; no write to it counts as an error.
            if interrupts.leaving is None:
                streams.notes.error(error)

        code = guarded(work, show)
        return code if interrupts.leaving is None else interrupts.leaving


def _ask(question: str, streams: Streams) -> Command:
    """What the words and the piped input ask together. Raises click.UsageError: nothing."""
    command = parse(question)
    text = question
    if question == "-":
        text = _all_input(streams)
        command = Say(text)
    elif question.strip() and streams.has_input and not sys.stdin.isatty():
        context = _all_input(streams).strip("\n")
        if context:
            command = Say(f"{context}\n\n{question}")
    if not text.strip():
        raise click.UsageError("the question is empty")
    return command


def _all_input(streams: Streams) -> str:
    """All of standard input, which somebody may have left open by mistake."""
    if not streams.has_input:
        return ""
    if not sys.stdin.isatty() and not select.select([STDIN], [], [], _PATIENCE_SECONDS)[0]:
        streams.notes.note("waiting for standard input to end; `< /dev/null` if there is none")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"standard input has more than {MAX_BYTES >> 20} MiB")
    return decode(data, "standard input", streams.notes.note)


def _ensure_model(name: str, streams: Streams) -> None:
    from radixchat.engine.model_store import ModelStore

    find_or_fetch(ModelStore.default(), name, streams.errors, streams.notes)


async def _chat(
    settings: ChatSettings, streams: Streams, command: Command | None, interrupts: Interrupts
) -> int:
    async with contextlib.AsyncExitStack() as stack:

        def tell(text: str) -> None:
            # In the rows of an answer that is being drawn there is no room for a note.
            if not (streams.answers_on_screen and streams.output.is_drawing):
                streams.notes.note(text)

        with streams.notes.during(_loading(settings)), no_collection():
            client = await stack.enter_async_context(open_client(settings, tell))
        if isinstance(client, WaitsForServer):
            waiting, loop = client, asyncio.get_running_loop()
            interrupts.stop_waiting = lambda: loop.call_soon_threadsafe(waiting.stop_waiting)
        for notice in client.notices:
            streams.notes.note(notice)
        dialogue = Dialogue(client, settings, streams.output, streams.notes, interrupts)
        dialogue.state.on_screen = streams.answers_on_screen
        messages = await _resume(client, dialogue, settings, streams)
        if command is not None:
            return await run_question(dialogue, command, interrupts)
        if streams.screen is None:
            return await run_lines(dialogue, _lines(streams), interrupts)
        at = "" if settings.url is None else f" at {shown_url(settings.url)}"
        streams.notes.aside(
            f"{client.model_name}{at}, {client.n_ctx:,} tokens of context; {HOW_TO_LEAVE}"
        )
        if streams.answers_on_screen:
            show_tail(messages, streams.output, streams.notes)
        code = await _converse(dialogue, streams, interrupts)
        if dialogue.stored is not None and streams.answers_on_screen and code in _LEFT_BY_USER:
            streams.notes.aside(f"`{way_back(dialogue.stored, settings)}` goes on here")
        return code


def _loading(settings: ChatSettings) -> str:
    if settings.url is not None:
        return f"connecting to {shown_url(settings.url)} …"
    return f"loading {settings.model} …"


async def _converse(dialogue: Dialogue, streams: Streams, interrupts: Interrupts) -> int:
    # Here, because prompt_toolkit takes a tenth of a second to import and only a prompt needs it.
    from radixchat.chat_cli.prompt import Prompt
    from radixchat.chat_cli.quiet_terminal import QuietTerminal
    from radixchat.chat_cli.repl import Repl

    assert streams.screen is not None
    dumb = streams.screen_is_dumb
    terminal = QuietTerminal(STDIN, None if dumb else streams.screen)
    interrupts.before_exit = terminal.restore
    prompt = Prompt(streams.screen, history_file(), streams.notes, interrupts, dumb=dumb)
    try:
        return await Repl(dialogue, prompt, terminal, streams.notes, interrupts).run()
    finally:
        terminal.restore()


async def _lines(streams: Streams) -> AsyncIterator[str]:
    if streams.has_input:
        async for line in InputLines(STDIN, streams.notes.note):
            yield line


async def _resume(
    client: ChatClient, dialogue: Dialogue, settings: ChatSettings, streams: Streams
) -> list[MessageView]:
    """Go on with the conversation that the settings name; its messages."""
    if settings.session is not None:
        conversation = await client.resolve_conversation(settings.session)
    elif not settings.continue_last:
        return []
    elif (latest := await client.latest_conversation()) is None:
        streams.notes.note("there is no conversation to continue; this is a new one")
        return []
    else:
        conversation = latest
    messages = await dialogue.resume(conversation)
    turns = sum(message.role == "user" for message in messages)
    streams.notes.note(f"continuing {conversation}, {turns} {'turn' if turns == 1 else 'turns'}")
    return messages
