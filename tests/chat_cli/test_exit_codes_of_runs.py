"""What real processes exit with: one case for each code that scripts act on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from radixchat.chat_cli.exit_codes import (
    BROKEN_PIPE,
    ERROR,
    INTERRUPTED,
    NO_PERMISSION,
    OK,
    TEMPORARY,
    TERMINATED,
    UNAVAILABLE,
    USAGE,
)
from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded
from radixchat.server.limits import Limits
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND
from radixchat.tests.server.sockets import Server, open_server
from radixchat.tests.server.turns import ME, begin, say
from radixchat.tests.slow_steps import slowed

ASK = ("chat", "--max-tokens", "3", "hello")
PATIENCE_S = 60


async def start(*arguments: str, stdout: int = subprocess.PIPE) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
    )


async def run(*arguments: str) -> tuple[int | None, str]:
    """The exit code, and what was said on standard error."""
    process = await start(*arguments)
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode, said.decode()


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_model), database=tmp_path / "there.db")


def at_a_server(
    local: LocalSettings,
    body: Callable[[Server], Awaitable[None]],
    settings: ServeSettings | None = None,
) -> None:
    async def main() -> None:
        async with open_server(local, settings) as server:
            await body(server)

    asyncio.run(main())


def test_without_a_server(tmp_path: Path) -> None:
    """2: a wrong flag; 69: a model that is not there, a server that does not answer; 1: no file."""

    async def main() -> None:
        cases = {
            ("chat", "--top-p", "7", "hello"): (USAGE, "--top-p"),
            ("chat", "-x", "--json", "hello"): (USAGE, "--extract"),
            ("chat", "-m", "./none.gguf", "hello"): (UNAVAILABLE, "none.gguf"),
            ("sessions", "list", "--url", "ws://127.0.0.1:9"): (UNAVAILABLE, "127.0.0.1:9"),
            ("sessions", "show", "-d", str(tmp_path / "none.db")): (ERROR, "none.db"),
        }
        ended = await asyncio.gather(*(run(*arguments) for arguments in cases))
        for (arguments, (code, text)), (found, said) in zip(cases.items(), ended, strict=True):
            assert found == code, (arguments, said)
            assert text in said
            assert "Traceback" not in said

    asyncio.run(main())


@pytest.mark.slow
def test_answers(local: LocalSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """0: answered; 1: refused; 75: somebody else is answering, the engine is full, it leaves."""
    assert local.database is not None
    with Store(local.database) as store:
        busy = store.create_conversation(principal=ME)
        say(store, busy)
        begin(store, busy)

        async def body(server: Server) -> None:
            at = ("--url", server.url)
            answered, refused, locked, deleted = await asyncio.gather(
                run(*ASK, *at),
                run("chat", *at, "/bogus"),
                run(*ASK[:-1], *at, "--session", busy, "hello"),
                run("sessions", "delete", busy, *at),
            )
            assert answered[0] == OK, answered
            assert refused[0] == ERROR, refused
            assert locked[0] == TEMPORARY, locked
            assert deleted[0] == TEMPORARY, deleted
            with monkeypatch.context() as patch:
                patch.setattr(Engine, "submit", _full)
                assert (await run(*ASK, *at))[0] == TEMPORARY
            server.edge.departure.drain(30)
            assert (await run(*ASK, *at))[0] == TEMPORARY

        at_a_server(local, body)


@pytest.mark.slow
def test_keys_and_rates(local: LocalSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """77: a wrong key, or none; 75: too many requests in a minute."""
    assert local.database is not None
    with Store(local.database) as store:
        key = store.keys.add("me")

    async def body(server: Server) -> None:
        at = ("--url", server.url)
        wrong, none = await asyncio.gather(
            run("sessions", "list", *at, "--key", "rc_wrong"), run(*ASK, *at)
        )
        assert (wrong[0], none[0]) == (NO_PERMISSION, NO_PERMISSION)
        monkeypatch.setenv("RADIXCHAT_KEY", key)
        assert (await run(*ASK, *at))[0] == OK
        limited, said = await run(*ASK, *at)
        assert (limited, "minute" in said) == (TEMPORARY, True), said

    at_a_server(local, body, ServeSettings(port=0, limits=Limits(requests_per_minute=1)))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)]
)
def test_signals(local: LocalSettings, number: signal.Signals, code: int) -> None:
    """130 and 143: an answer that comes is stopped, and what there is of it is kept."""

    async def body(server: Server) -> None:
        with slowed(0.02):
            process = await start("chat", "--url", server.url, "--max-tokens", "3000", "talk")
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.read(1), PATIENCE_S)
            process.send_signal(number)
            _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == code, said
        assert b"Traceback" not in said
        assert local.database is not None
        with Store(local.database) as store:
            latest = store.latest(principal=ME)
            assert latest is not None
            row = store.conversation(latest, principal=ME)
            assert store.path(row.tip, principal=ME)[-1].status == "interrupted"

    at_a_server(local, body)


def test_a_reader_that_goes_away(local: LocalSettings) -> None:
    """141 and no word, as of any program in a pipe."""

    async def body(server: Server) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with slowed(0.02):
            process = await start(
                "chat", "-q", "--url", server.url, "--max-tokens", "3000", "talk", stdout=writer
            )
            os.close(writer)
            _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert (process.returncode, said) == (BROKEN_PIPE, b"")

    at_a_server(local, body)


def _full(*_: object) -> None:
    raise EngineOverloaded(waiting=256, limit=256)
