"""A conversation of which a message has several answers, over the real service; for the tests."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import Output, TextOutput
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.siblings import Siblings
from radixchat.server.protocol import ResponseDone, TreeMessage
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import tiny_settings


class Scene:
    """A conversation of one turn, and somewhere to show its other answers.

    output: of text, unless it is replaced. errors: what was said beside them.
    """

    def __init__(self, client: ChatClient, settings: ChatSettings, conversation: str) -> None:
        self.client = client
        self.settings = settings
        self.conversation = conversation
        self.stream = Recording()
        self.notes, self.errors = notes()
        self.interrupts = Interrupts(interrupt_leaves=False)
        self.output: Output = TextOutput(console(self.stream), self.notes)

    def siblings(self, count: int) -> Siblings:
        return Siblings(
            self.client,
            self.conversation,
            self.settings.answer,
            count,
            self.output,
            self.interrupts,
            self.notes,
        )

    async def stored(self, answers: Sequence[ResponseDone]) -> list[TreeMessage]:
        """The messages that these have become."""
        tree = await self.client.tree(self.conversation)
        by_response = {response: message for message in tree for response in message.responses}
        return [by_response[done.response or ""] for done in answers]

    async def tip(self) -> str:
        return (await self.client.messages(self.conversation))[-1].text


class Picks:
    """Somebody at a terminal who always presses this key. asked: the keys they had."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self.asked: list[str] = []

    async def choose(self, question: str, keys: str) -> str | None:
        self.asked.append(keys)
        return self._key


class Tripwire(Recording):
    """A stream with a consequence, once: when something is written for which `is_due`."""

    def __init__(self, is_due: Callable[[Tripwire], bool], consequence: Callable[[], None]) -> None:
        super().__init__()
        self.num_writes = 0
        self._is_due = is_due
        self._consequence = consequence
        self._tripped = False

    def write(self, text: str) -> int:
        written = super().write(text)
        self.num_writes += 1
        if not self._tripped and self._is_due(self):
            self._tripped = True
            self._consequence()
        return written


def third_write(stream: Tripwire) -> bool:
    return stream.num_writes == 3


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def play(
    model: Path,
    path: Path,
    work: Callable[[Scene], Awaitable[None]],
    *,
    survives: bool = True,
    **changes: object,
) -> Scene:
    """Answer a message once, do the work; after it nothing runs in an engine that survives it."""
    settings = tiny_settings(model, path / "sessions.db", **{"temperature": 1.0, **changes})

    async def run() -> Scene:
        async with open_client(settings) as client:
            conversation = await client.create_conversation()
            first = replace(settings.answer, max_output_tokens=1)
            async for _ in client.send(conversation, "one", first):
                pass
            scene = Scene(client, settings, conversation)
            with scene.interrupts:
                await work(scene)
            if survives:
                assert (await client.conversation(conversation)).running is None
                stats = await client.stats()
                assert (stats["running"], stats["waiting"]) == (0, 0)
            return scene

    return asyncio.run(run())


def texts(answers: Sequence[ResponseDone]) -> list[str]:
    return [done.output_text for done in answers]


def written(shown: list[str]) -> str:
    """Answers as they stand on standard output."""
    return "".join(f"{neutralise(text)}\n" for text in shown)
