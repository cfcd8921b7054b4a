"""Turns without a prompt: a question of the command line, or lines of standard input.

Knows no terminal. Each line is a turn or a command; what fails is shown, and the next line comes.
Lines between /multi and /multi are one message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.command_line import parse
from radixchat.chat_cli.commands import (
    ClearScreen,
    Command,
    Edit,
    Leave,
    Misunderstood,
    Paste,
    Say,
    ToggleMultiline,
)
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.input_lines import MAX_BYTES
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.server.protocol import InvalidRequest

_INVALID = "invalid_value"


async def run_question(dialogue: Dialogue, command: Command, interrupts: Interrupts) -> int:
    """Answer once; the exit code.

    A question that is refused for what it asks is the command line's: such as a --schema that is
    none, which only the model's own compiler knows.
    """
    refusal, dialogue.state.goes_on = None, False
    if not isinstance(command, Leave):
        refusal = await dialogue.perform(_complete(command))
    code = _exit_code(dialogue, interrupts)
    is_usage = isinstance(command, Say) and refusal is not None and refusal.code == _INVALID
    return exit_codes.USAGE if is_usage and code == exit_codes.ERROR else code


async def run_lines(dialogue: Dialogue, lines: AsyncIterator[str], interrupts: Interrupts) -> int:
    """Perform line after line until they end, /exit, or a signal; the exit code.

    Lines after the engine has failed are left alone: they would be stored and never answered.
    """
    while interrupts.leaving is None and not dialogue.engine_failed:
        line = await _next_line(lines, interrupts)
        if line is None:
            break
        if not line.strip():
            continue
        command = parse(line)
        if isinstance(command, Leave):
            break
        if isinstance(command, ToggleMultiline):
            command = Say(await _message(lines, interrupts))
            if interrupts.leaving is not None or not command.text.strip():
                continue
        await dialogue.perform(_complete(command))
    return _exit_code(dialogue, interrupts)


async def _message(lines: AsyncIterator[str], interrupts: Interrupts) -> str:
    """The lines up to the next /multi, or to their end: they are one message, as they stand.

    Raises InvalidRequest beyond MAX_BYTES characters.
    """
    message: list[str] = []
    room = MAX_BYTES
    # A signal may come between two lines, when nobody waits for one that it could wake.
    while interrupts.leaving is None:
        line = await _next_line(lines, interrupts)
        if line is None or isinstance(parse(line), ToggleMultiline):
            break
        room -= len(line) + 1
        if room < 0:
            raise InvalidRequest(f"a message of several lines has more than {MAX_BYTES >> 20} MiB")
        message.append(line)
    return "\n".join(message)


async def _next_line(lines: AsyncIterator[str], interrupts: Interrupts) -> str | None:
    loop = asyncio.get_running_loop()
    reading = asyncio.ensure_future(anext(lines, None))

    def wake() -> None:
        loop.call_soon_threadsafe(reading.cancel)

    with interrupts.directed_to(Target(stop=wake, abandon=wake)):
        await asyncio.wait({reading})
    return None if reading.cancelled() else reading.result()


def _complete(command: Command) -> Command:
    """The command, where it does not want a terminal: one who is asked for more, or an input."""
    match command:
        case Edit(None, _) | Edit(_, None):
            return Misunderstood(
                "/edit wants the number of a message and its new text: /edit N TEXT"
            )
        case Paste():
            return Misunderstood("/paste puts the clipboard into an input line, and here is none")
        case ClearScreen():
            return Misunderstood("/clear clears a screen, and here is none")
        case ToggleMultiline():
            return Misunderstood("/multi is for lines, and here is one question")
    return command


def _exit_code(dialogue: Dialogue, interrupts: Interrupts) -> int:
    return dialogue.exit_code if interrupts.leaving is None else interrupts.leaving
