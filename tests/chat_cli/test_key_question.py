"""A question for one key, as a window shows it."""

from __future__ import annotations

import asyncio
import os
import termios
from typing import TextIO

import pytest
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.defaults import create_pipe_input

from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.key_question import asked_key

QUESTION = "which answer goes on? 1, 2, 3; Enter keeps 1"


def shown(columns: int) -> str:
    """What a window of that width gets, answered with 2."""

    async def ask(pipe: PipeInput, screen: TextIO) -> str | None:
        interrupts = Interrupts(interrupt_leaves=False)
        asking = asyncio.ensure_future(asked_key(QUESTION, "123", screen, pipe, interrupts))
        await asyncio.sleep(0)  # it has looked at what was typed before
        pipe.send_text("2")
        return await asyncio.wait_for(asking, 60)

    outside, window = os.openpty()
    try:
        termios.tcsetwinsize(window, (24, columns))
        with os.fdopen(window, "w", encoding="utf-8") as screen, create_pipe_input() as pipe:
            assert asyncio.run(ask(pipe, screen)) == "2"
            written = b""
            while not written.endswith(b"2\r\n"):
                written += os.read(outside, 4096)
        return written.decode().replace("\r\n", "\n")
    finally:
        os.close(outside)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (80, f"{QUESTION} 2\n"),
        (40, "which answer goes on? 1, 2, 3; Enter\nkeeps 1 2\n"),
        (24, "which answer goes on?\n1, 2, 3; Enter keeps 1 2\n"),
    ],
)
def test_it_is_broken_between_words(columns: int, expected: str) -> None:
    """And the key that was pressed has room in the last line."""
    assert shown(columns) == expected
