"""The input line: what each key does, through prompt_toolkit's own parser."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.input.defaults import create_pipe_input

from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.prompt import Prompt, PromptInterrupted
from radixchat.tests.chat_cli.consoles import Recording, notes

PASTE = "\x1b[200~{}\x1b[201~"
HUGE = "line\n" * 30


def read(keys: str, path: Path, *, draft: str = "", dumb: bool = False) -> str:
    """What is entered by the keys."""
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        return asyncio.run(_prompt(pipe, path, dumb=dumb).read("> ", draft))


def _prompt(pipe: PipeInput, path: Path, *, dumb: bool = False) -> Prompt:
    interrupts = Interrupts(interrupt_leaves=False)
    screen = Recording(terminal=True)
    return Prompt(screen, path / "history", notes()[0], interrupts, dumb=dumb, keys=pipe)


@pytest.mark.parametrize(
    ("keys", "entry"),
    [
        ("hello\r", "hello"),
        ("a\x1b\rb\r", "a\nb"),
        ("a\\\rb\r", "a\nb"),
        ("a\\b\r", "a\\b"),
        (PASTE.format("one\rtwo\nthree\r\nfour") + "\r", "one\ntwo\nthree\nfour"),
        (PASTE.format("ends with \\") + " \r", "ends with \\ "),
        ("  spaces stay  \r", "  spaces stay  "),
        ("typo\x03right\r", "right"),
        ("ab\x7fc\r", "ac"),
        ("Größe 漢字 👩‍👩‍👧\r", "Größe 漢字 👩‍👩‍👧"),
        ("\r", ""),
        ("a👩‍👩‍👧\x7fb\r", "ab"),
        ("ae\u0301\x1b[D\x1b[Db\x1b[3~\r", "be\u0301"),
        (PASTE.format(HUGE) + "\x7fx\r", "x"),
        (PASTE.format(HUGE) + "\x1b[Dx\r", "x" + HUGE),
        ("\ta /sta\t\r", "a /sta"),
        ("/sta\t\r", "/stats "),
        ("/stats\x1b[D\t\r", "/stats"),
        (PASTE.format("x" * 4_500) + "\r", "x" * 4_500),
    ],
)
def test_keys(tmp_path: Path, keys: str, entry: str) -> None:
    """Enter sends; Alt-Enter, backslash-Enter and a paste make lines; Ctrl-C clears."""
    assert read(keys, tmp_path) == entry


@pytest.mark.parametrize(
    ("keys", "entry"),
    [
        ("a\rb\x1b\r", "a\nb"),
        ("a\\\rb\x1b\r", "a\\\nb"),
        ("/multi\r", "/multi"),
        ("/bogus\r\x1b\r", "/bogus\n"),
    ],
)
def test_keys_of_many_lines(tmp_path: Path, keys: str, entry: str) -> None:
    """Enter begins a line, but sends a command; Alt-Enter sends."""

    async def read_lines(pipe: PipeInput) -> str:
        prompt = _prompt(pipe, tmp_path)
        prompt.multiline = True
        pipe.send_text(keys)
        return await asyncio.wait_for(prompt.read("multi> ", ""), 5)

    with create_pipe_input() as pipe:
        assert asyncio.run(read_lines(pipe)) == entry


def test_a_question(tmp_path: Path) -> None:
    """The first key that is an answer is one; what follows, and what was before, is kept."""

    async def ask(pipe: PipeInput) -> tuple[str | None, str]:
        prompt = _prompt(pipe, tmp_path)
        pipe.send_text("before")
        asking = asyncio.ensure_future(prompt.choose("which?", "123"))
        await asyncio.sleep(0)  # it has looked at what was typed before
        pipe.send_text("x2 and after\r")
        chosen = await asyncio.wait_for(asking, 5)
        assert prompt.has_keys
        return chosen, await asyncio.wait_for(prompt.read("> ", ""), 5)

    with create_pipe_input() as pipe:
        assert asyncio.run(ask(pipe)) == ("2", "before and after")


def test_a_signal_ends_a_question(tmp_path: Path) -> None:
    """SIGTERM while a key is asked for: there is no answer, and the exit code is known."""

    async def terminated(pipe: PipeInput, interrupts: Interrupts) -> str | None:
        screen = Recording(terminal=True)
        prompt = Prompt(screen, None, notes()[0], interrupts, dumb=False, keys=pipe)
        asking = asyncio.ensure_future(prompt.choose("which?", "12"))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        return await asyncio.wait_for(asking, 5)

    with create_pipe_input() as pipe, Interrupts(interrupt_leaves=False) as interrupts:
        assert asyncio.run(terminated(pipe, interrupts)) is None
        assert interrupts.leaving == 143


def test_ctrl_c_at_an_empty_line(tmp_path: Path) -> None:
    """It interrupts, and leaves the rest to whoever asked."""
    with pytest.raises(PromptInterrupted):
        read("\x03", tmp_path)


def test_ctrl_d(tmp_path: Path) -> None:
    """At an empty line it is the end of the input; in a text it deletes forwards."""
    with pytest.raises(EOFError):
        read("\x04", tmp_path)
    assert read("ab\x1b[D\x04\r", tmp_path) == "a"


def test_draft(tmp_path: Path) -> None:
    """A draft is in the line to be changed, and to be cleared."""
    assert read(" more\r", tmp_path, draft="some") == "some more"
    assert read("\x03other\r", tmp_path, draft="some") == "other"


@pytest.mark.parametrize("drops", [False, True])
def test_keys_after_an_entry(tmp_path: Path, *, drops: bool) -> None:
    """Keys that came with an entry wait for the next one, unless they are dropped."""

    async def twice(pipe: PipeInput) -> str:
        prompt = _prompt(pipe, tmp_path)
        assert not prompt.has_keys
        pipe.send_text("first\rsecond\r")
        assert await prompt.read("> ", "") == "first"
        assert prompt.has_keys
        if drops:
            prompt.drop_keys()
            assert not prompt.has_keys
            pipe.send_text("third\r")
        return await asyncio.wait_for(prompt.read("> ", ""), 30)

    with create_pipe_input() as pipe:
        assert asyncio.run(twice(pipe)) == ("third" if drops else "second")


def test_history_across_runs(tmp_path: Path) -> None:
    """Up brings back the last entry, of several lines too."""
    assert read("first\r", tmp_path) == "first"
    assert read("a\\\rb\r", tmp_path) == "a\nb"

    async def up(pipe: PipeInput) -> str:
        prompt = _prompt(pipe, tmp_path)
        reading = asyncio.ensure_future(prompt.read("> ", ""))
        buffer = prompt._session.default_buffer
        while len(buffer._working_lines) < 3:  # noqa: ASYNC110 - the task that loads tells nobody
            await asyncio.sleep(0.005)
        pipe.send_text("\x1b[A\x1b[A\x1b[A\r")
        return await asyncio.wait_for(reading, 30)

    with create_pipe_input() as pipe:
        assert asyncio.run(up(pipe)) == "first"


@pytest.mark.parametrize("dumb", [False, True])
def test_a_signal_wakes_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dumb: bool
) -> None:
    """SIGTERM at the prompt interrupts it; the exit code is known."""
    if dumb:
        monkeypatch.setenv("TERM", "dumb")

    async def terminated(pipe: PipeInput, interrupts: Interrupts) -> None:
        screen = Recording(terminal=True)
        prompt = Prompt(screen, tmp_path / "history", notes()[0], interrupts, dumb=dumb, keys=pipe)
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(prompt.read("> ", ""), 30)

    with (
        create_pipe_input() as pipe,
        Interrupts(interrupt_leaves=False) as interrupts,
        pytest.raises(PromptInterrupted),
    ):
        asyncio.run(terminated(pipe, interrupts))
    assert interrupts.leaving == 143


def test_dumb_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM=dumb reads the same keys."""
    monkeypatch.setenv("TERM", "dumb")
    assert read("ab\x7fc\r", tmp_path, dumb=True) == "ac"
    assert read("!\r", tmp_path, dumb=True, draft="again") == "again!"
