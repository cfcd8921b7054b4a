"""`radixchat sessions --url`: a server's conversations, with the output of those in its file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.server.local import LocalSettings
from radixchat.server.store import Store
from radixchat.tests.server.sockets import open_server
from radixchat.tests.server.turns import ME, begin, load, say, texts


@contextmanager
def served(local: LocalSettings) -> Iterator[str]:
    """The URL of a server in another thread: commands have this one, and its signals."""
    ready, urls = threading.Event(), list[str]()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with open_server(local) as server:
            urls.append(server.url)
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Three conversations, one of them with branches."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        eggs = store.create_conversation(principal=ME, title="Eggs", system="Cook.")
        say(store, eggs, "How long?", "Eight minutes.")
        tip = say(store, eggs, "Sure?", "Yes\x1b[31m really.")
        store.move_tip(eggs, principal=ME, expected=tip, new=load(store, eggs).messages[2].id)
        say(store, eggs, "Another way?", "No.")
        say(store, store.create_conversation(principal=ME), "And ham?", "Longer.")
        store.create_conversation(principal=ME, title="Empty")
    return path


def sessions(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sessions", *arguments])


def ids(*place: str) -> list[str]:
    return [line.split("\t")[0] for line in sessions("list", *place).stdout.splitlines()]


def test_the_same_as_from_the_file(tiny_model: Path, database: Path) -> None:
    """Every verb that reads prints the same, and fails in the same way."""
    with served(LocalSettings(model=str(tiny_model), database=database)) as url:
        file = ("--db", str(database))
        (eggs,) = [id_ for id_ in ids(*file) if "Cook." in sessions("show", id_, *file).stdout]
        for arguments in (
            ("list",),
            ("list", "--json", "--limit", "2"),
            ("show",),
            ("show", eggs),
            ("show", eggs[:-1], "--json"),
            ("search", "real"),
            ("search", "minutes", "--json"),
            ("export",),
            ("export", "--all"),
            ("export", eggs, "--format", "markdown"),
            ("show", eggs, "--tree"),
            ("show", eggs, "--tree", "--json"),
            ("show", "ZZZZ"),
            ("show", "ZZ"),
            ("fork", eggs, "--at", "7"),
            ("fork", eggs, "--at", "msg_none"),
            ("delete", "ZZZZ"),
        ):
            here, there = sessions(*arguments, *file), sessions(*arguments, "--url", url)
            assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout), arguments
            assert there.stderr == here.stderr, arguments


def test_forks_and_deletes(tiny_model: Path, database: Path) -> None:
    """What is made or deleted there is made or deleted in its file; what runs there stays."""
    with served(LocalSettings(model=str(tiny_model), database=database)) as url:
        empty, ham, eggs = ids("--url", url)
        (fork,) = sessions("fork", eggs, "--at", "1", "--name", "Soft", "--url", url).stdout.split()
        assert sessions("delete", ham, empty, "--url", url).stdout.split() == [ham, empty]
        assert (
            sorted(ids("--url", url)) == sorted([fork, eggs]) == sorted(ids("--db", str(database)))
        )
        with Store(database) as elsewhere:
            assert texts(elsewhere, fork) == ["Cook.", "How long?", "Eight minutes."]
            begin(elsewhere, fork)
            busy = sessions("delete", eggs, fork, "--url", url)
        assert (busy.exit_code, busy.stdout) == (75, "")
        assert f"{fork} is being answered" in busy.stderr
        assert eggs in ids("--url", url)
