"""What is typed while nobody asks: kept in order, however much it is; and what stops an answer."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.defaults import create_pipe_input

from radixchat.chat_cli import type_ahead as module
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.prompt import Prompt
from radixchat.chat_cli.type_ahead import TypeAhead
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.consoles import Recording, notes
from radixchat.tests.chat_cli.prompt_program import COMMAND, described

EMPTY = r"^> ?\Z"
PASTE = "\x1b[200~{}\x1b[201~"
MEGABYTE = ("x" * 79 + "\r") * 13_200


def with_keys(work: Callable[[PipeInput, TypeAhead], Awaitable[None]]) -> None:
    """Do the work over a pipe of keys."""

    async def run(pipe: PipeInput) -> None:
        await asyncio.wait_for(work(pipe, TypeAhead(pipe)), 30)

    with create_pipe_input() as pipe:
        asyncio.run(run(pipe))


async def entered(pipe: PipeInput) -> str:
    """What a prompt reads next."""
    interrupts = Interrupts(interrupt_leaves=False)
    prompt = Prompt(Recording(), None, notes()[0], interrupts, dumb=False, keys=pipe)
    return await prompt.read("> ", "")


async def turns(count: int = 5) -> None:
    """Let the event loop see what is there."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that begins with Esc may take its time."""
    monkeypatch.setattr(module, "ESCAPE_SECONDS", 60)


@pytest.mark.usefixtures("no_hurry")
def test_order() -> None:
    """Before, meanwhile and after: one line; a paste, and an arrow, that come in pieces."""

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        with ahead.kept(lambda: pytest.fail("no Esc")):
            assert not ahead.has_keys
            pipe.send_text("a\x1b\rb\x1b")
            await turns()
            assert ahead.has_keys
            pipe.send_text("[Dc\x1b[200~one\rt")
            await turns()
            pipe.send_text("wo\x1b[20")
            await turns()
        pipe.send_text("1~\r")
        assert await entered(pipe) == "a\ncone\ntwob"

    with_keys(work)


def test_esc_alone() -> None:
    """It is told once what follows would have come, and is no key of the next line."""

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        told = asyncio.Event()
        with ahead.kept(told.set):
            pipe.send_text("kept\x1b")
            await told.wait()
            pipe.send_text("b\r")
        assert await entered(pipe) == "keptb"

    with_keys(work)


@pytest.mark.usefixtures("no_hurry")
def test_esc_at_the_end() -> None:
    """What is still doubtful when the answer ends makes no Alt-key of the next key."""

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        with ahead.kept(lambda: None):
            pipe.send_text("\x1b")
            await turns()
        pipe.send_text("b\r")
        assert await entered(pipe) == "b"

    with_keys(work)


def test_keys_are_dropped() -> None:
    """What was typed before is forgotten, read or not; what is typed afterwards is not."""

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        with ahead.kept(lambda: None):
            pipe.send_text("read\r")
            await turns()
            pipe.send_text("not read\r")
            ahead.drop()
            assert not ahead.has_keys
            pipe.send_text("seen\r")
            await turns()
        assert await entered(pipe) == "seen"

    with_keys(work)


def test_too_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are kept, and the rest is counted."""
    monkeypatch.setattr(module, "MOST_KEYS", 5)

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        with ahead.kept(lambda: None):
            pipe.send_text("1234")
            await turns()
            pipe.send_text("5678")
        assert ahead.dropped == 3
        pipe.send_text("\r")
        assert await entered(pipe) == "12345"

    with_keys(work)


def test_somebody_else_reads() -> None:
    """Keys are theirs meanwhile, and are kept again afterwards."""

    async def work(pipe: PipeInput, ahead: TypeAhead) -> None:
        with ahead.kept(lambda: None):
            with ahead.left_alone():
                pipe.send_text("theirs")
                await turns()
                assert not ahead.has_keys
                assert len(pipe.read_keys()) == 6
            pipe.send_text("ours\r")
            await turns()
            assert ahead.has_keys
        assert await entered(pipe) == "ours"

    with_keys(work)


@pytest.mark.slow
def test_ctrl_c_after_more_than_a_terminal_keeps() -> None:
    """After a megabyte, pasted, or typed without a line's end, it still stops; both are dropped."""
    with ChatTerminal(command=COMMAND) as terminal:
        terminal.wait_for(EMPTY)
        for times, keys in enumerate((PASTE.format(MEGABYTE), "x" * 20_000), start=1):
            terminal.enter("wait")
            terminal.wait_for("^waiting", times=times)
            terminal.type(f"{keys}\x03")
            terminal.wait_for("^stopped by you", times=times)
            terminal.wait_for(EMPTY)
        terminal.type("\x04")
        assert terminal.exit_code() == 0
        assert "xxx" not in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("term", "keys", "text"),
    [
        ("xterm-256color", PASTE.format(MEGABYTE), MEGABYTE.replace("\r", "\n")),
        ("dumb", "x" * 5_000, "x" * 5_000),
    ],
)
def test_more_than_a_terminal_keeps(term: str, keys: str, text: str) -> None:
    """All of it is there, in its order, when Esc has stopped the answer."""
    with ChatTerminal(command=COMMAND, environment={"TERM": term}) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("wait")
        terminal.wait_for("^waiting")
        terminal.type(f"before {keys}\x1b")
        terminal.wait_for("^stopped by you")
        terminal.wait_for(r"^> before (x+|\[pasted .*\])\Z")
        terminal.enter(" after")
        terminal.wait_for(f"^{described(f'before {text} after')}$")
        terminal.type("\x04")
        assert terminal.exit_code() == 0


@pytest.mark.slow
def test_in_the_background(tmp_path: Path) -> None:
    """What is typed there is the shell's; in the foreground again it is ours."""
    shell = (
        f"set -m; {shlex.join(COMMAND)}; echo; echo suspended; bg; read line; "
        'echo "the shell got $line"; jobs; fg; exit'
    )
    with ChatTerminal(command=("/bin/sh", "-c", shell)) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("wait")
        terminal.wait_for("^waiting")
        terminal.type("\x1a")
        terminal.wait_for("^suspended(?s:.)*prompt_program")
        terminal.enter("this")
        terminal.wait_for("^the shell got this")
        terminal.wait_for("prompt_program", times=3)
        assert "input" not in terminal.text
        terminal.type("\x03")
        terminal.wait_for("^stopped by you")
        terminal.wait_for(EMPTY)
        terminal.type("\x04")
        assert terminal.exit_code() == 0
