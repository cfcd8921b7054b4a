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
import math
import select
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.attachment import Attachment
from radixchat.chat_cli.background_client import open_background
from radixchat.chat_cli.client import ChatClient, Waits, open_client, prepare
from radixchat.chat_cli.collection import no_collection
from radixchat.chat_cli.command_line import HOW_TO_LEAVE, parse
from radixchat.chat_cli.commands import Command, Say
from radixchat.chat_cli.conversation_source import find
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.forgetting import forget
from radixchat.chat_cli.guard import guarded
from radixchat.chat_cli.input_lines import MAX_BYTES, InputLines, decode
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.loading_thread import LoadingThread
from radixchat.chat_cli.model_download import Models, find_or_fetch
from radixchat.chat_cli.news_above import NewsAbove
from radixchat.chat_cli.paths import history_file
from radixchat.chat_cli.script import run_lines, run_question
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.streams import STDIN, Streams
from radixchat.chat_cli.tail import show_tail
from radixchat.chat_cli.tier_warnings import warnings_told
from radixchat.chat_cli.way_back import way_back
from radixchat.server.model_name import public_name
from radixchat.server.protocol import InvalidRequest, MessageView, ModelLoadError

if TYPE_CHECKING:
    from radixchat.chat_cli.repl import Repl

_PATIENCE_SECONDS = 1.0
_LOADING_SECONDS = 10.0
"""How long a script waits for a server that is loading its model; at a prompt Ctrl-C ends it."""
# After another signal nobody may be there to read what is said last.
_LEFT_BY_USER = (exit_codes.OK, exit_codes.INTERRUPTED)


def run_chat(settings: ChatSettings, question: str | None) -> int:
    """Chat; the exit code. Raises SystemExit when a signal or a second Ctrl-C ends it early.

    A model that is still being loaded is not waited for: the process ends here.
    """
    has_format = settings.answer.response_format is not None
    streams = Streams.of_this_process(
        json=settings.json,
        ids=settings.ids,
        verbatim=has_format,
        raw=settings.raw,
        quiet=settings.quiet,
        extract=settings.extract,
    )
    prompts = question is None and streams.screen is not None
    thread = LoadingThread()
    with Interrupts(interrupt_leaves=not prompts) as interrupts:

        def work() -> int:
            # Read once, as a pipe can be; and before a model is loaded for nothing.
            attached = _attached(settings.attach)
            if prompts and settings.url is None:
                missing = _fetched(settings.model, streams)
                return asyncio.run(
                    _chat_at_once(settings, attached, streams, interrupts, thread, missing)
                )
            command = None if question is None else _ask(question, streams)
            if settings.url is None:
                find_or_fetch(_models(), settings.model, streams.errors, streams.notes)
                # Torch is imported here, and what a first run compiles is compiled here and not
                # beside the event loop: Ctrl-C ends it at once.
                with streams.notes.during(_loading(settings)), no_collection():
                    prepare(settings, streams.notes.note)
            return asyncio.run(_chat_when_ready(settings, attached, streams, command, interrupts))

        def show(error: str) -> None:
            # A closed terminal ends the run as a signal; no write to it counts as an error.
            # What has ended a turn, and ends the run too, has been told.
            if interrupts.leaving is None and error != streams.notes.last_error:
                streams.notes.error(error)

        try:
            code = guarded(work, show) or streams.exit_code
        except SystemExit as left:
            if thread.is_busy:
                interrupts.exit_now(int(left.code or 0))
            raise
        if interrupts.leaving is not None:
            code = interrupts.leaving
        if thread.is_busy:
            interrupts.exit_now(code)
        thread.close()
        return code


def _attached(names: Sequence[str]) -> list[Attachment]:
    """The files of -a. Raises click.BadParameter."""
    try:
        return [Attachment.read(name) for name in names]
    except InvalidRequest as error:
        raise click.BadParameter(str(error), param_hint="'-a' / '--attach'") from error


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


def _models() -> Models:
    from radixchat.engine.model_store import ModelStore

    return ModelStore.default()


def _fetched(name: str, streams: Streams) -> ModelLoadError | None:
    """Fetch the model if it is not here; why it cannot be had.

    Before the prompt, which can do nothing that is worth more than to see how far a first download
    is, in a bar of its own: Ctrl-C ends it.
    """
    try:
        find_or_fetch(_models(), name, streams.errors, streams.notes)
    except ModelLoadError as error:
        return error
    return None


async def _chat_at_once(
    settings: ChatSettings,
    attached: Sequence[Attachment],
    streams: Streams,
    interrupts: Interrupts,
    thread: LoadingThread,
    missing: ModelLoadError | None,
) -> int:
    """At a prompt that comes before the model; or, where that is missing, without one."""
    news = NewsAbove(streams.notes)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(warnings_told(news.note))
        client = await stack.enter_async_context(
            open_background(settings, thread, news, waits=False)
        )
        _let_stop_waiting(client, interrupts)
        dialogue = _dialogue(client, settings, attached, streams, interrupts)
        messages = await _resume(client, dialogue, settings, streams)
        name = public_name(settings.model)
        streams.notes.aside(f"{name}; {HOW_TO_LEAVE}")

        async def load(repl: Repl) -> None:
            client.model.on_change = repl.refresh
            if missing is None:
                await client.model.start()
            else:
                client.model.fail(missing)

        return await _converse(dialogue, settings, streams, interrupts, messages, load)


async def _chat_when_ready(
    settings: ChatSettings,
    attached: Sequence[Attachment],
    streams: Streams,
    command: Command | None,
    interrupts: Interrupts,
) -> int:
    """With a server, or with a model that has to be there first."""
    news = NewsAbove(streams.notes)

    def tell(text: str) -> None:
        # In the rows of an answer that is being drawn there is no room for a note.
        if not streams.output.remark(text):
            news.note(text)

    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(warnings_told(tell))
        with streams.notes.during(_loading(settings)), no_collection():
            at_prompt = command is None and streams.screen is not None
            patience_s = math.inf if at_prompt else _LOADING_SECONDS
            client = await stack.enter_async_context(open_client(settings, tell, patience_s))
        _let_stop_waiting(client, interrupts)
        for notice in client.notices:
            streams.notes.note(notice)
        dialogue = _dialogue(client, settings, attached, streams, interrupts)
        if settings.url is not None and not settings.log:
            stack.push_async_callback(forget, client, dialogue.state.made, streams.notes)
        messages = await _resume(client, dialogue, settings, streams)
        if command is not None:
            return await run_question(dialogue, command, interrupts)
        if streams.screen is None:
            return await run_lines(dialogue, _lines(streams), interrupts)
        assert settings.url is not None, "a model of this process is loaded behind the prompt"
        at = f"{client.model_name} at {shown_url(settings.url)}"
        streams.notes.aside(f"{at}, {client.n_ctx:,} tokens of context; {HOW_TO_LEAVE}")
        return await _converse(dialogue, settings, streams, interrupts, messages)


def _dialogue(
    client: ChatClient,
    settings: ChatSettings,
    attached: Sequence[Attachment],
    streams: Streams,
    interrupts: Interrupts,
) -> Dialogue:
    dialogue = Dialogue(client, settings, streams.output, streams.notes, interrupts)
    dialogue.state.on_screen = streams.answers_on_screen
    for attachment in attached:
        dialogue.state.attachments.append(attachment.block)
        streams.notes.aside(str(attachment))
    return dialogue


def _let_stop_waiting(client: ChatClient, interrupts: Interrupts) -> None:
    if isinstance(client, Waits):
        waiting, loop = client, asyncio.get_running_loop()
        interrupts.stop_waiting = lambda: loop.call_soon_threadsafe(waiting.stop_waiting)


def _loading(settings: ChatSettings) -> str:
    if settings.url is not None:
        return f"connecting to {shown_url(settings.url)} …"
    return f"loading {settings.model} …"


async def _converse(
    dialogue: Dialogue,
    settings: ChatSettings,
    streams: Streams,
    interrupts: Interrupts,
    messages: Sequence[MessageView],
    load: Callable[[Repl], Awaitable[None]] | None = None,
) -> int:
    """At a prompt, below the end of what was said; load: begins when that is on the screen."""
    # Here, because prompt_toolkit takes a tenth of a second to import and only a prompt needs it.
    from radixchat.chat_cli.prompt import Prompt
    from radixchat.chat_cli.quiet_terminal import QuietTerminal
    from radixchat.chat_cli.repl import Repl

    assert streams.screen is not None
    if streams.answers_on_screen:
        show_tail(messages, streams.output, streams.notes)
    dumb = streams.screen_is_dumb
    terminal = QuietTerminal(STDIN, None if dumb else streams.screen)
    interrupts.before_exit = terminal.restore
    history = history_file() if settings.history else None
    prompt = Prompt(streams.screen, history, streams.notes, interrupts, dumb=dumb)
    repl = Repl(dialogue, prompt, terminal, streams.notes, interrupts)
    try:
        if load is not None:
            await load(repl)
        code = await repl.run()
    finally:
        terminal.restore()
    returns = dialogue.stored if settings.log and code in _LEFT_BY_USER else None
    if returns and streams.answers_on_screen and not await dialogue.state.is_gone():
        streams.notes.aside(f"`{way_back(returns, settings)}` goes on here")
    return code


async def _lines(streams: Streams) -> AsyncIterator[str]:
    if streams.has_input:
        async for line in InputLines(STDIN, streams.notes.note):
            yield line


async def _resume(
    client: ChatClient, dialogue: Dialogue, settings: ChatSettings, streams: Streams
) -> list[MessageView]:
    """Go on with the conversation that the settings name; its messages."""
    if settings.session is not None:
        conversation = await find(client, settings.session)
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
