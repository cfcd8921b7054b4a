"""A chat over the real service, in this process, whose commands a test gives one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.command_line import parse
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import TextOutput
from radixchat.chat_cli.settings import ChatSettings
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import tiny_settings


@dataclass(frozen=True, slots=True)
class ChatScene:
    """answers: what went to standard output; errors: to standard error."""

    dialogue: Dialogue
    client: ChatClient
    settings: ChatSettings
    answers: Recording
    errors: Recording

    async def do(self, *lines: str) -> list[str]:
        """Perform them, none of which may be refused; what was said, without status lines."""
        before = self.errors.tell()
        for line in lines:
            assert await self.dialogue.perform(parse(line)) is None, self.errors.getvalue()
        return self._said(before)

    async def refused(self, line: str) -> str:
        """Perform it: it is refused; the reason, which was said, and nothing else."""
        before = self.errors.tell()
        error = await self.dialogue.perform(parse(line))
        assert error is not None, f"{line} was done"
        said = self._said(before)
        assert [line for line in said if line.startswith("error: ")] == said
        return " ".join(said)

    @property
    def conversation(self) -> str:
        """Where the chat is."""
        found = self.dialogue.state.conversation
        assert found is not None
        return found

    async def texts(self) -> list[str]:
        """The user's turns on the path."""
        return await self.dialogue.user_turns()

    def _said(self, start: int) -> list[str]:
        lines = self.errors.getvalue()[start:].splitlines()
        return [line for line in lines if not line.startswith("cached ")]


def in_chat(
    model: Path,
    folder: Path,
    work: Callable[[ChatScene], Awaitable[None]],
    *,
    terminal: bool = False,
    **changes: Any,
) -> None:
    """Do the work in a new chat. terminal: answers go to one. changes: as tiny_settings has."""
    settings = tiny_settings(model, folder / "sessions.db", json=False, **changes)

    async def run() -> None:
        answers = Recording(terminal=terminal)
        speaker, errors = notes()
        async with open_client(settings) as client:
            output = TextOutput(console(answers), speaker)
            interrupts = Interrupts(interrupt_leaves=True)
            dialogue = Dialogue(client, settings, output, speaker, interrupts)
            dialogue.state.on_screen = terminal
            await work(ChatScene(dialogue, client, settings, answers, errors))

    asyncio.run(run())
