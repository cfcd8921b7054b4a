"""`--no-log`: what a chat has made is deleted, and what cannot be is told."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.forgetting import forget
from radixchat.server.local import LocalSettings
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.chat_cli.consoles import notes
from radixchat.tests.chat_cli.scripted import tiny_settings
from radixchat.tests.server.sockets import open_server
from radixchat.tests.server.turns import ME, begin
from radixchat.tests.slow_steps import slow_command, slowed


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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at_server", [False, True])
def test_a_signal_in_mid_answer(
    tiny_model: Path, tmp_path: Path, number: signal.Signals, at_server: bool
) -> None:
    """However the chat ends, what was said in it is gone; what was there before is not."""
    database = tmp_path / "s.db"
    with Store(database) as store:
        kept = store.create_conversation(principal=ME)
    local = LocalSettings(model=str(tiny_model), database=database)

    async def stopped(command: tuple[str, ...], *where: str) -> int | None:
        process = await asyncio.create_subprocess_exec(
            *(*command, "chat", "--no-log", "--max-tokens", "3000", *where, "talk"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.read(1), 60)
        assert len(stored(database)) == 2
        process.send_signal(number)
        await asyncio.wait_for(process.communicate(), 60)
        return process.returncode

    async def run() -> int | None:
        if not at_server:
            flags = ("-m", str(tiny_model), "-d", str(database), "--no-speculation")
            return await stopped(slow_command(0.02), *flags)
        async with open_server(local) as server:
            with slowed(0.02):
                return await stopped(COMMAND, "--url", server.url)

    assert asyncio.run(run()) == 128 + number
    assert stored(database) == [kept]


def stored(database: Path) -> list[str]:
    """The conversations of the file, those that no list shows too."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return [id_ for (id_,) in connection.execute("SELECT id FROM conversation")]
