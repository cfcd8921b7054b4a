"""The price of an edit is what the edit then costs, to the token, and asking costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.edit_price import EditPrice, edit_price, price_of_edit
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import CacheReport, ResponseDone
from radixchat.tests.chat_cli.scripted import tiny_settings
from radixchat.tests.seeded_bug import SeededBug

TURNS = ("a first message " * 12, "the second one " * 20, "and a third one, " * 8)
OTHERS = tuple(text.upper() for text in TURNS)
"""As many tokens as TURNS, and none of them the same at its place."""


@dataclass(frozen=True, slots=True)
class Mispricing(SeededBug):
    """A bug of chat_cli/edit_price.py."""

    PACKAGE: ClassVar[str] = "chat_cli"
    ROOT: ClassVar[str] = "edit_price"


MISPRICINGS = [
    Mispricing(name, "edit_price", old, new)
    for name, old, new in (
        ("nothing is lost", "min(asked.cached_tokens,", "max(asked.cached_tokens,"),
        ("the other prompt's length", "tokens = asked.input_tokens", "tokens = other.input_tokens"),
        ("all of it", "min(asked.cached_tokens, other.cached_tokens)", "0"),
        ("the turn before", "turn=turn, text=OTHER", "turn=max(turn - 1, 1), text=OTHER"),
        ("the same text", 'OTHER_TEXT = "~"', 'OTHER_TEXT = ""'),
    )
]  # fmt: skip


def converse(settings: ChatSettings, work: Callable[[ChatClient, str], Awaitable[None]]) -> None:
    """Do the work in the conversation of the database, or in a new one of these turns."""

    async def run() -> None:
        async with open_client(settings) as client:
            conversation = await client.latest_conversation()
            if conversation is None:
                conversation = await client.create_conversation("be brief")
                for text in TURNS:
                    async for _ in client.send(conversation, text, settings.answer):
                        pass
            await work(client, conversation)

    asyncio.run(run())


async def cost_of_edit(
    client: ChatClient, settings: ChatSettings, conversation: str, turn: int
) -> int:
    """Tokens of the prompt that were computed for it; the tip is where it was, then."""
    before = (await client.messages(conversation))[-1].id
    async for event in client.edit(conversation, turn, OTHERS[turn - 1], settings.answer):
        if isinstance(event, ResponseDone):
            done = event
    await client.update_conversation(conversation, tip=before)
    return done.usage.input_tokens - done.usage.cached_tokens


def test_the_price_is_what_it_costs(tiny_model: Path, tmp_path: Path) -> None:
    """Of every turn, warm, and cold in another process; each seeded bug misses one of them."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")
    wrong = {bug.name: bug.load_root() for bug in MISPRICINGS}
    caught: set[str] = set()

    async def work(client: ChatClient, conversation: str) -> None:
        for turn in (2, 1, 3):
            price = await edit_price(client, conversation, turn)
            told = {
                name: await root.edit_price(client, conversation, turn)
                for name, root in wrong.items()
            }
            cost = await cost_of_edit(client, settings, conversation, turn)
            assert price.tokens == cost
            caught.update(name for name, mispriced in told.items() if mispriced.tokens != cost)

    converse(settings, work)
    assert caught == set(wrong)
    converse(settings, work)


def test_asking_changes_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """Neither the conversation, nor what is cached of it."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")

    async def work(client: ChatClient, conversation: str) -> None:
        async def state() -> object:
            tree = await client.tree(conversation, warmth=True)
            figures = await client.stats()
            return tree, await client.messages(conversation), figures

        before = await state()
        for turn in (1, 2, 3):
            await edit_price(client, conversation, turn)
        assert await state() == before

    converse(settings, work)


def test_what_cannot_be_told(tiny_model: Path, tmp_path: Path) -> None:
    """Of a turn or a conversation that there is not, nothing: the edit itself is refused."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")

    async def work(client: ChatClient, conversation: str) -> None:
        told = await price_of_edit(client, conversation, 3)
        assert told is not None
        assert told.startswith("editing turn 3 recomputes ")
        assert await price_of_edit(client, conversation, 4) is None
        assert await price_of_edit(client, conversation, 0) is None
        assert await price_of_edit(client, "conv_none", 1) is None

    converse(settings, work)


def report(tokens: int, cached: int, computing_ms: float | None) -> CacheReport:
    return CacheReport(None, tokens, cached, (), computing_ms=computing_ms)


@pytest.mark.parametrize(
    ("asked", "other", "said"),
    [
        (
            report(2000, 1999, 1.0),
            report(1010, 760, 425.0),
            "editing turn 3 recomputes 1,240 tokens, about 2.1 s",
        ),
        (
            report(2000, 0, 3400.0),
            report(1010, 0, 1717.0),
            "editing turn 3 recomputes 2,000 tokens, about 3.4 s",
        ),
        (report(9, 8, None), report(9, 8, None), "editing turn 3 recomputes 1 token"),
    ],
    ids=["warm", "cold", "one token"],
)
def test_in_words(asked: CacheReport, other: CacheReport, said: str) -> None:
    """With the time that so many tokens take, if anybody knows: by the rate of the most of them."""
    assert str(EditPrice.of(3, asked, other)) == said
