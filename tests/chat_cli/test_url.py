"""`radixchat chat --url`: the same chat at a server as in the process, and what keeps it away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import click
import pytest

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import JsonOutput, TextOutput
from radixchat.chat_cli.run import run_chat
from radixchat.chat_cli.script import run_lines
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import MessageView
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND, ChatTerminal
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import Run, tiny_settings
from radixchat.tests.chat_cli.test_chat_command import settings_of
from radixchat.tests.chat_cli.test_run import pipe_in
from radixchat.tests.server.server_process import PATIENCE_S, free_port, serving
from radixchat.tests.server.sockets import open_server
from radixchat.tests.slow_steps import slow_command, tripped

SCRIPT = (
    "first", "second", "/regen", "/edit 1 another first", "/bogus", "/edit 9 nothing",
    "third", "/undo", "/undo", "/undo", "fourth", "/new", "/undo", "/regen", "fifth", "//slash",
)  # fmt: skip


async def _lines(lines: tuple[str, ...], interrupt_at: tuple[str, ...]) -> AsyncIterator[str]:
    for line in lines:
        if line in interrupt_at:
            with tripped(5, lambda: os.kill(os.getpid(), signal.SIGINT)):
                yield line
        else:
            yield line


async def _run(
    settings: ChatSettings,
    lines: tuple[str, ...],
    conversation: str | None,
    interrupt_at: tuple[str, ...],
) -> tuple[Run, list[MessageView]]:
    """What the lines leave, and the messages of the conversation that they end in."""
    answers, (speaker, errors) = Recording(), notes()
    output = (
        JsonOutput(answers, ids=settings.ids)
        if settings.json
        else TextOutput(console(answers), speaker)
    )
    with Interrupts(interrupt_leaves=False) as interrupts:
        async with open_client(settings, speaker.note) as client:
            dialogue = Dialogue(client, settings, output, speaker, interrupts)
            if conversation is not None:
                await dialogue.resume(await client.resolve_conversation(conversation[:-2]))
            code = await run_lines(dialogue, _lines(lines, interrupt_at), interrupts)
            latest = await client.latest_conversation()
            assert latest is not None
            messages = await client.messages(latest)
    return Run(answers.getvalue(), errors.getvalue(), code), messages


def both(
    model: Path,
    folder: Path,
    *scripts: tuple[str, ...],
    interrupt_at: tuple[str, ...] = (),
    **changes: object,
) -> list[list[tuple[Run, list[MessageView]]]]:
    """The scripts, each going on where the one before ended; in the process, then at a server."""

    async def every(settings: ChatSettings) -> list[tuple[Run, list[MessageView]]]:
        runs: list[tuple[Run, list[MessageView]]] = []
        conversation = None
        for script in scripts:
            runs.append(await _run(settings, script, conversation, interrupt_at))
            if settings.json:
                conversation = runs[-1][0].turns[-1]["conversation"]
        return runs

    async def main() -> list[list[tuple[Run, list[MessageView]]]]:
        here = tiny_settings(model, folder / "here.db", **changes)
        local = LocalSettings(model=str(model), database=folder / "there.db")
        inside = await every(here)
        async with open_server(local) as server:
            there = tiny_settings(Path("/no/model"), folder / "no.db", url=server.url, **changes)
            return [inside, await every(there)]

    return asyncio.run(asyncio.wait_for(main(), 300))


def transcript(run: Run, *, warm: bool) -> list[dict[str, object]]:
    """The turns, without ids and times; warm: with what was cached, and why not more."""
    ours = ["conversation", "response", "timings", "x_cache"]
    if not warm:
        ours += ["usage", "prompt_cache_diagnostics"]
    return [{k: v for k, v in turn.items() if k not in ours} for turn in run.turns]


def without_ids(text: str) -> str:
    return re.sub(r"conv_\w+|resp_\w+|\d+(\.\d+)? (ms|tok/s)", "_", text)


def said(messages: list[MessageView]) -> list[tuple[str, str, str]]:
    return [(message.role, message.text, message.status) for message in messages]


def test_the_same_script_gives_the_same_transcript(tiny_model: Path, tmp_path: Path) -> None:
    """Turns, edits, regenerations, undo, /new, refusals; then going on with a prefix of the id."""
    inside, outside = both(tiny_model, tmp_path, SCRIPT, ("sixth", "/regen"), seed=3)
    for (here, mine), (there, theirs) in zip(inside, outside, strict=True):
        # The second run in the process is one of an engine that knows nothing yet.
        warm = here is inside[0][0]
        assert transcript(there, warm=warm) == transcript(here, warm=warm)
        assert there.stderr == here.stderr
        assert there.code == here.code
        assert said(theirs) == said(mine)
    assert len(inside[0][0].turns) > 10
    assert inside[0][0].turns[0]["output_ids"]


def test_the_same_text_for_people(tiny_model: Path, tmp_path: Path) -> None:
    """Answers, notes and status lines are the same, but for times."""
    (here,), (there,) = both(tiny_model, tmp_path, SCRIPT, seed=3, json=False, ids=False)
    assert there[0].stdout == here[0].stdout
    assert without_ids(there[0].stderr) == without_ids(here[0].stderr)


@pytest.mark.usefixtures("unhurried")
def test_ctrl_c_stops_an_answer(tiny_model: Path, tmp_path: Path) -> None:
    """It is kept as far as it came, and the next message is answered; here and there."""
    lines = ("stop this one", "and this one")
    changes: dict[str, object] = {"max_output_tokens": 3000, "seed": 1, "speculate": False}
    for ((run, messages),) in both(tiny_model, tmp_path, lines, interrupt_at=lines, **changes):
        assert [turn["incomplete_details"] for turn in run.turns] == 2 * [{"reason": "interrupted"}]
        answers = [message for message in messages if message.role == "assistant"]
        assert [message.status for message in answers] == ["interrupted"] * 2
        assert [turn["output_text"] for turn in run.turns] == [message.text for message in answers]


def test_nobody_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 69, a sentence with the address and what would do; no model is looked for."""
    pipe_in(monkeypatch, b"")
    url = f"http://127.0.0.1:{free_port()}"
    settings = tiny_settings(Path("/no/model"), tmp_path / "no.db", url=url, json=False, ids=False)
    assert run_chat(settings, "hello") == 69
    output = capsys.readouterr()
    assert output.out == ""
    assert url in output.err
    assert "radixchat serve" in output.err
    assert not (tmp_path / "no.db").exists()


def test_no_torch_is_imported(tmp_path: Path) -> None:
    """A chat at a server starts without what computes."""
    program = (
        "import sys; from radixchat.chat_cli.main import main\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'numpy', 'transformers', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "chat", "--url", f"ws://127.0.0.1:{free_port()}", "hello"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (69, "[]\n")


def test_keys(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong key, or none where one is needed: 77. A server that leaves: 75. No key is shown."""
    local = LocalSettings(model=str(tiny_model), database=tmp_path / "there.db")
    with Store(tmp_path / "there.db") as store:
        key = store.keys.add("me")

    async def codes() -> list[int]:
        async with open_server(local) as server:
            results = []
            for given in ("rc_wrong-secret", None, key):
                settings = tiny_settings(Path("/no"), tmp_path / "no.db", url=server.url, key=given)
                assert "secret" not in repr(settings)
                results.append(await _in_process_of_its_own(settings))
            server.edge.departure.drain(30)
            results.append(await _in_process_of_its_own(settings))
            return results

    assert asyncio.run(codes()) == [77, 77, 0, 75]
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err


async def _in_process_of_its_own(settings: ChatSettings) -> int:
    """The exit code of a question; the server is on this loop, and Ctrl-C the main thread's."""
    assert settings.url is not None
    environment = {**os.environ, "RADIXCHAT_URL": settings.url}
    if settings.key is not None:
        environment["RADIXCHAT_KEY"] = settings.key
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "chat", "--max-tokens", "3", "hello",
        env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert settings.key is None or settings.key.encode() not in out + err
    return process.returncode or 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--url ws://h:1 --model m", "--model is for an engine in this process"),
        ("--url ws://h:1 -m m", "--model"),
        ("--url ws://h:1 --threads 2", "--threads"),
        ("--url ws://h:1 --no-exact", "--no-exact"),
        ("--url ws://h:1 --no-cache", "--no-cache"),
        ("--url ws://h:1 --db x.db", "--db"),
        ("--url h:1", "ws://"),
        ("--url ws://u:rc_secret@h", "--key"),
        ("--key rc_secret", "--url"),
    ],
)
def test_flags_that_do_not_go_together(arguments: str, complaint: str) -> None:
    """What only an engine here is told is refused by name; a key never shows."""
    with pytest.raises(click.UsageError) as refused:
        settings_of(*arguments.split())
    assert complaint in str(refused.value)
    assert "secret" not in str(refused.value)


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """URL and key come from variables too; those of an engine do not get in the way."""
    monkeypatch.setenv("RADIXCHAT_URL", "ws://h:1")
    monkeypatch.setenv("RADIXCHAT_KEY", "rc_k")
    monkeypatch.setenv("RADIXCHAT_THREADS", "2")
    settings = settings_of()
    assert (settings.url, settings.key) == ("ws://h:1", "rc_k")
    without = settings_of("--url", "", "--model", "m")
    assert (without.url, without.model) == (None, "m")


def wait_for_a_part(database: Path, chatting: subprocess.Popen[bytes]) -> None:
    """Until some of the running answer is stored."""
    part = "SELECT count(*) FROM response WHERE status = 'in_progress' AND text != ''"
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.closing(sqlite3.connect(database)) as connection:
        while connection.execute(part).fetchone() == (0,):
            assert chatting.poll() is None, "it has ended"
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_replaced(
    tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Killed, or told to leave, in the middle of an answer; another on its port: the same text."""
    port = free_port()
    flags = ("--port", str(port), "--drain-timeout", "0")
    chat = ("chat", "--url", f"ws://127.0.0.1:{port}", "--max-tokens", "3000", "--seed", "4")
    more = ("--no-speculation", "-o", "ignore_eos", "true", "--json", "tell me a story")

    def text(data: bytes) -> str:
        return str(json.loads(data)["output_text"])

    slow = slow_command(0.02)  # a minute of steps
    with serving(tiny_model, tmp_path, *flags, command=slow) as first:
        chatting = subprocess.Popen([*COMMAND, *chat, *more], stdout=subprocess.PIPE)
        wait_for_a_part(tmp_path / "data" / "sessions.db", chatting)
        first.tell(number)
        first.code()
    with serving(tiny_model, tmp_path, *flags) as second:
        answer = text(chatting.communicate(timeout=PATIENCE_S)[0])
        assert chatting.returncode == 0, second.stderr
        again = subprocess.run([*COMMAND, *chat, *more], capture_output=True, check=True)
    assert answer == text(again.stdout)


@pytest.mark.slow
def test_at_a_prompt(tiny_model: Path, tmp_path: Path) -> None:
    """The first line says which model at which server, the last how to come back to it."""
    with serving(tiny_model, tmp_path) as server:
        with ChatTerminal("chat", "--url", server.url, "--max-tokens", "8") as terminal:
            terminal.wait_for(re.escape(f"{tiny_model.name} at {server.url}, "))
            terminal.wait_for(r"> ?\Z")
            terminal.enter("hello")
            terminal.answered(1)
            terminal.enter("/exit")
            assert terminal.exit_code() == 0
            shown = " ".join(terminal.text.split())
            assert re.search(rf"radixchat chat --session conv_\w+ --url {server.url}", shown)
        arguments = ("chat", "--url", server.url, "-c", "--max-tokens", "8", "again")
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
        assert ", 1 turn" in done.stderr


@pytest.mark.slow
def test_a_prompt_whose_server_is_gone(tiny_model: Path, tmp_path: Path) -> None:
    """It says so at once, and again when it is back; Ctrl-C gives the text back."""
    flags = ("--port", str(free_port()))
    with serving(tiny_model, tmp_path, *flags) as server:
        url = server.url
        terminal = ChatTerminal("chat", "--url", url, "--max-tokens", "8")
        terminal.enter("hello")
        terminal.answered(1)
    with terminal:
        terminal.enter("still there?")
        terminal.wait_for(f"note: {re.escape(url)} is lost; trying to get it back")
        with serving(tiny_model, tmp_path, *flags):
            terminal.wait_for(f"note: {re.escape(url)} is back")
            terminal.answered(2)
        terminal.enter("and now?")
        terminal.wait_for("trying to get it back", times=2)
        terminal.type("\x03")
        terminal.wait_for("you have stopped waiting for it")
        terminal.wait_for(r"> and now\?\Z")
        terminal.type("\x03")  # empties the line
        terminal.enter("/exit")
        assert terminal.exit_code() == 0


@pytest.mark.slow
def test_an_answer_whose_server_is_gone(tiny_model: Path, tmp_path: Path) -> None:
    """One Ctrl-C ends it with what has come, and the prompt is back."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(tiny_model, tmp_path, command=slow_command(0.02)))
        flags = ("--url", server.url, "--max-tokens", "3000", "--no-speculation")
        with ChatTerminal("chat", *flags) as terminal:
            terminal.wait_for(r"> ?\Z")
            terminal.enter("hello")
            terminal.wait_for(r"> hello\n\s*\S")
            stack.close()
            terminal.wait_for("is lost; trying to get it back")
            terminal.type("\x03")
            terminal.wait_for("stopped by you")
            terminal.wait_for("you have stopped waiting for it")
            terminal.wait_for(r"> ?\Z")
            terminal.enter("/exit")
            assert terminal.exit_code() == 0
            assert "radixchat chat --session conv_" in terminal.text


@pytest.mark.slow
def test_an_answer_whose_server_hangs(tiny_model: Path, tmp_path: Path) -> None:
    """One Ctrl-C is heard, as a line says; the second one leaves."""
    with serving(tiny_model, tmp_path, command=slow_command(0.02)) as server:
        flags = ("--url", server.url, "--max-tokens", "3000", "--no-speculation")
        with ChatTerminal("chat", *flags) as terminal:
            terminal.wait_for(r"> ?\Z")
            terminal.enter("hello")
            terminal.wait_for(r"> hello\n\s*\S")
            server.tell(signal.SIGSTOP)
            try:
                terminal.type("\x03")
                terminal.wait_for(r"stopping …; Ctrl-C again leaves\Z")
                terminal.type("\x03")
                terminal.type("\x03")
                assert terminal.exit_code() == 130
            finally:
                server.tell(signal.SIGCONT)
