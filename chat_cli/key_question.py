"""Asks for one key at a terminal. Knows neither what is asked nor what the answer does."""

from __future__ import annotations

import asyncio
import os
from typing import TextIO

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.console import Console
from rich.text import Text

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.interrupts import Interrupts, Target

_ENTER = (Keys.ControlM, Keys.ControlJ)
_NEITHER = (Keys.ControlC, Keys.ControlD)


async def asked_key(
    question: str, keys: str, screen: TextIO, terminal: Input, interrupts: Interrupts
) -> str | None:
    """One of `keys`; Enter is the first. None: Ctrl-C, Ctrl-D, a signal, a terminal that is gone.

    What was typed before the question was there is no answer to it: the next prompt gets that.
    """
    kept = terminal.read_keys()
    while more := terminal.read_keys():
        kept += more
    screen.write(f"{_wrapped(neutral_line(question), screen)} ")
    screen.flush()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def settle(key: str | None) -> None:
        if not answer.done():
            answer.set_result(key)

    def read() -> None:
        for pressed in terminal.read_keys():
            if answer.done() or pressed.key == Keys.BracketedPaste:
                kept.append(pressed)
            elif pressed.key in _NEITHER:
                settle(None)
            elif (key := _answer(pressed, keys)) is not None:
                settle(key)
        if terminal.closed:
            settle(None)

    def wake() -> None:
        loop.call_soon_threadsafe(settle, None)

    with (
        terminal.raw_mode(),
        terminal.attach(read),
        interrupts.directed_to(Target(stop=wake, abandon=wake)),
    ):
        key = await answer
    store_typeahead(terminal, kept)
    screen.write(f"{key or ''}\n")
    screen.flush()
    return key


def _wrapped(question: str, screen: TextIO) -> str:
    """The question, in lines that end between words and leave room for a key."""
    try:
        width = os.get_terminal_size(screen.fileno()).columns
    except OSError:
        return question  # no terminal, and so no width
    lines = Text(question).wrap(Console(file=screen, width=width), max(1, width - 2))
    return "\n".join(line.plain.rstrip() for line in lines)


def _answer(pressed: KeyPress, keys: str) -> str | None:
    if pressed.key in _ENTER:
        return keys[0]
    return pressed.key if len(pressed.key) == 1 and pressed.key in keys else None
