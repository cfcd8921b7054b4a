"""Piped lines answered by the real service with a model of random weights, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.command_line import parse
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import JsonOutput, TextOutput
from radixchat.chat_cli.script import run_lines, run_question
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import MessageView, ResponseOptions
from radixchat.tests.chat_cli.consoles import Recording, console, notes


@dataclass(frozen=True, slots=True)
class Run:
    """What a run left: standard output, standard error, exit code."""

    stdout: str
    stderr: str
    code: int

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The JSON objects on standard output."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def run_script(
    settings: ChatSettings,
    *lines: str,
    conversation: str | None = None,
    answers: Recording | None = None,
    after: tuple[float, Callable[[], None]] | None = None,
) -> Run:
    """Run the lines as turns; with `conversation`, they continue it.

    answers: the stream that is standard output. after: seconds, and what to do that long after
    the first line has been handed out.
    """

    async def work(dialogue: Dialogue, interrupts: Interrupts) -> int:
        if conversation is not None:
            await dialogue.resume(conversation)
        return await run_lines(dialogue, _each(lines, after), interrupts)

    return _run(settings, work, answers or Recording())


def run_one(settings: ChatSettings, question: str) -> Run:
    """Run the words of a command line."""

    async def work(dialogue: Dialogue, interrupts: Interrupts) -> int:
        return await run_question(dialogue, parse(question), interrupts)

    return _run(settings, work, Recording())


def _run(
    settings: ChatSettings,
    work: Callable[[Dialogue, Interrupts], Awaitable[int]],
    answers: Recording,
) -> Run:
    speaker, errors = notes()
    output = (
        JsonOutput(answers, ids=settings.ids)
        if settings.json
        else TextOutput(console(answers), speaker)
    )

    async def run(interrupts: Interrupts) -> int:
        async with open_client(settings) as client:
            return await work(Dialogue(client, settings, output, speaker, interrupts), interrupts)

    with Interrupts(interrupt_leaves=True) as interrupts:
        code = asyncio.run(run(interrupts))
    return Run(answers.getvalue(), errors.getvalue(), code)


async def _each(
    lines: tuple[str, ...], after: tuple[float, Callable[[], None]] | None
) -> AsyncIterator[str]:
    if after is not None:
        asyncio.get_running_loop().call_later(*after)
    for line in lines:
        yield line
    if after is not None:
        await asyncio.Event().wait()


def messages_of(settings: ChatSettings, conversation: str | None = None) -> list[MessageView]:
    """The stored messages of a conversation; None: the last one."""

    async def read() -> list[MessageView]:
        async with open_client(settings) as client:
            found = conversation or await client.latest_conversation()
            assert found is not None
            return await client.messages(found)

    return asyncio.run(read())


def tiny_settings(model: Path, database: Path, **changes: Any) -> ChatSettings:
    """Short greedy answers of the small model, as JSON with ids unless `changes` says otherwise.

    changes: fields of ChatSettings, and of the ResponseOptions that are its `answer`.
    """
    asked = {name: changes.pop(name) for name in ResponseOptions.__slots__ if name in changes}
    values: dict[str, Any] = {
        "model": str(model),
        "database": database,
        "answer": ResponseOptions(**{"temperature": 0.0, "max_output_tokens": 6, **asked}),
        "threads": 1,
        "json": True,
        "ids": True,
    }
    return ChatSettings(**{**values, **changes})
