"""`--no-log`: what a chat has made is deleted, and what cannot be is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.forgetting import forget
from radixchat.server.store import Store
from radixchat.tests.chat_cli.consoles import notes
from radixchat.tests.chat_cli.scripted import tiny_settings
from radixchat.tests.server.turns import ME, begin


def test_they_are_gone(tiny_model: Path, tmp_path: Path) -> None:
    """All that are named, but no other; one that was deleted already is no error."""
    settings = tiny_settings(tiny_model, tmp_path / "s.db")
    speaker, said = notes()

    async def run() -> str:
        async with open_client(settings) as client:
            kept, *made = [await client.create_conversation() for _ in range(4)]
            await client.delete_conversation(made[1])
            await forget(client, made, speaker)
            return kept

    kept = asyncio.run(run())
    with Store(settings.database) as store:
        assert [row.id for row in store.conversations(principal=ME, limit=9)] == [kept]
    assert said.getvalue() == ""


def test_what_cannot_be_forgotten_is_told(tiny_model: Path, tmp_path: Path) -> None:
    """The others are forgotten all the same, and the error says how to delete this one later."""
    settings = tiny_settings(tiny_model, tmp_path / "s.db")
    speaker, said = notes()

    async def run() -> str:
        async with open_client(settings) as client:
            busy, idle = [await client.create_conversation() for _ in range(2)]
            with Store(settings.database) as elsewhere:
                begin(elsewhere, busy)
                await forget(client, [busy, idle], speaker)
            return busy

    busy = asyncio.run(run())
    with Store(settings.database) as store:
        assert [row.id for row in store.conversations(principal=ME, limit=9)] == [busy]
    assert f"`radixchat sessions delete {busy}`" in said.getvalue()
