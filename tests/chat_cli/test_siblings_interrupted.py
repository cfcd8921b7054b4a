"""Several answers that are stopped, refused, or lost on the way: each has its one end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import TextOutput
from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded
from radixchat.engine.request import Request, TokenEvent
from radixchat.server.local import LocalSettings
from radixchat.tests.chat_cli.consoles import console
from radixchat.tests.chat_cli.flapping_proxy import flapping_proxy
from radixchat.tests.chat_cli.scripted import tiny_settings
from radixchat.tests.chat_cli.sibling_scene import (
    Picks,
    Scene,
    Tripwire,
    play,
    press_ctrl_c,
    texts,
    third_write,
    written,
)
from radixchat.tests.server.sockets import Server, serve_sockets

# What is called endless goes on for a minute and more.
pytestmark = pytest.mark.usefixtures("unhurried")


def test_one_interruption_stops_them_all(tiny_model: Path, tmp_path: Path) -> None:
    """While endless ones run: what there is of each is shown and kept, and can be chosen."""

    async def work(scene: Scene) -> None:
        scene.stream = Tripwire(third_write, press_ctrl_c)
        scene.output = TextOutput(console(scene.stream), scene.notes)
        siblings, somebody = scene.siblings(3), Picks("2")
        answers = await siblings.run(lambda _: None)
        assert [done.reason for done in answers] == ["interrupted"] * 3
        kept = [done for done in answers if done.output_text]  # nothing to keep: it had not begun
        stored = await scene.stored(kept)
        assert {message.status for message in stored} == {"interrupted"}
        assert [message.text for message in stored] == texts(kept)
        if answers[1].output_text:
            assert await siblings.choose(answers, somebody) is answers[1]
        assert scene.stream.getvalue() == written(texts(answers))

    scene = play(tiny_model, tmp_path, work, max_output_tokens=None)
    assert scene.errors.getvalue().count("stopped by you") == 3


def test_an_interruption_after_the_first_stops_the_others(tiny_model: Path, tmp_path: Path) -> None:
    """Somebody else has ended the first: endless others are stopped as well as shown."""

    async def work(scene: Scene) -> None:
        begun: list[str] = []
        cancelling: list[asyncio.Task[None]] = []

        def end_the_first() -> None:
            cancelling.append(asyncio.create_task(scene.client.cancel(begun[0])))

        scene.stream = Tripwire(third_write, end_the_first)
        scene.errors = Tripwire(lambda stream: "cached " in stream.getvalue(), press_ctrl_c)
        scene.notes = Notes(console(scene.errors))
        scene.output = TextOutput(console(scene.stream), scene.notes)
        answers = await scene.siblings(3).run(lambda created: begun.append(created.response))
        await cancelling[0]
        assert [done.reason for done in answers] == ["interrupted"] * 3

    scene = play(tiny_model, tmp_path, work, max_output_tokens=None)
    assert scene.errors.getvalue().count("stopped by you") == 2


@pytest.mark.parametrize("first_has_ended", [False, True])
def test_a_second_interruption_leaves(
    tiny_model: Path, tmp_path: Path, *, first_has_ended: bool
) -> None:
    """At once, with the code of who leaves: while the first comes, or the others are awaited."""

    async def work(scene: Scene) -> None:
        begun: list[str] = []
        cancelling: list[asyncio.Task[None]] = []

        def press_twice() -> None:
            press_ctrl_c()
            press_ctrl_c()

        def end_the_first() -> None:
            cancelling.append(asyncio.create_task(scene.client.cancel(begun[0])))

        in_text, at_end = (end_the_first, press_twice)
        if not first_has_ended:
            in_text, at_end = (press_twice, end_the_first)
        scene.stream = Tripwire(third_write, in_text)
        scene.errors = Tripwire(lambda stream: "cached " in stream.getvalue(), at_end)
        scene.notes = Notes(console(scene.errors))
        scene.output = TextOutput(console(scene.stream), scene.notes)
        with pytest.raises(SystemExit) as left:
            await scene.siblings(3).run(lambda created: begun.append(created.response))
        assert left.value.code == 130
        assert len(cancelling) == first_has_ended

    play(tiny_model, tmp_path, work, survives=False, max_output_tokens=None)


def test_output_closed(tiny_model: Path, tmp_path: Path) -> None:
    """When the reader goes away none of them runs on, and what there is of each is kept."""

    async def work(scene: Scene) -> None:
        def close() -> None:
            raise BrokenPipeError

        scene.output = TextOutput(console(Tripwire(third_write, close)), scene.notes)
        with pytest.raises(BrokenPipeError):
            await scene.siblings(3).run(lambda _: None)
        tree = await scene.client.tree(scene.conversation)
        answers = [message.status for message in tree if message.role == "assistant"]
        assert len(answers) >= 2  # the others may not have been accepted yet
        assert set(answers) == {"interrupted"}

    play(tiny_model, tmp_path, work, max_output_tokens=None)


def test_one_that_is_refused_leaves_the_others(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its error and no answer; the key of it is not offered."""
    submitted: list[Request] = []
    submit = Engine.submit

    def refuse_the_third(engine: Engine, *requests: Request) -> None:
        submitted.extend(requests)
        if len(submitted) == 3:  # the turn's own is the first
            raise EngineOverloaded(256, 256)
        submit(engine, *requests)

    async def work(scene: Scene) -> None:
        siblings = scene.siblings(3)
        answers = await siblings.run(lambda _: None)
        [refused] = [number for number, done in enumerate(answers, 1) if done.error is not None]
        assert refused > 1
        error = answers[refused - 1].error
        assert error is not None
        assert error.code == "server_overloaded"
        other = {2: "3", 3: "2"}[refused]
        somebody = Picks(other)
        assert await siblings.choose(answers, somebody) is answers[int(other) - 1]
        assert somebody.asked == [f"1{other}"]

    monkeypatch.setattr(Engine, "submit", refuse_the_third)
    scene = play(tiny_model, tmp_path, work, seed=1)
    assert scene.errors.getvalue().count("error: ") == 1


def test_the_first_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """Then there are no others, nothing is asked and the conversation is as it was."""

    async def work(scene: Scene) -> None:
        scene.conversation = await scene.client.create_conversation()
        siblings, somebody = scene.siblings(3), Picks("2")
        answers = await siblings.run(lambda _: None)
        assert [(done.status, done.response) for done in answers] == [("failed", None)]
        assert await siblings.choose(answers, somebody) is answers[0]
        assert somebody.asked == []

    assert play(tiny_model, tmp_path, work).stream.getvalue() == ""


def test_the_engine_fails(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has one end, which says so; nothing is chosen."""
    step = Engine.step

    def fail_with_several(engine: Engine) -> list[TokenEvent]:
        if engine.snapshot().running == 3:
            raise MemoryError("no room for this step")
        return step(engine)

    async def work(scene: Scene) -> None:
        siblings, somebody = scene.siblings(3), Picks("1")
        answers = await siblings.run(lambda _: None)
        codes = [done.error.code for done in answers if done.error is not None]
        assert codes == ["engine_failed"] * 3
        assert await siblings.choose(answers, somebody) is answers[0]
        assert somebody.asked == []

    monkeypatch.setattr(Engine, "step", fail_with_several)
    play(tiny_model, tmp_path, work, survives=False, max_output_tokens=None)


def test_a_server_that_is_lost_on_the_way(tiny_model: Path, tmp_path: Path) -> None:
    """Connections break in the middle of them all: each goes on, and is shown and stored once."""
    local = LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db")
    settings = tiny_settings(
        tiny_model, tmp_path / "none.db", temperature=1.0, max_output_tokens=40, speculate=False
    )

    async def body(server: Server) -> None:
        async with (
            flapping_proxy(server.url, iter([25, 40])) as proxy,
            AsyncChatClient(proxy.url, backoff=Backoff(first_s=0.01, most_s=0.05)) as client,
        ):
            conversation = await client.create_conversation()
            async for _ in client.send(conversation, "one", settings.answer):
                pass
            scene = Scene(client, settings, conversation)
            with scene.interrupts:
                siblings = scene.siblings(3)
                answers = await siblings.run(lambda _: None)
                assert await siblings.choose(answers, Picks("3")) is answers[2]
            assert [done.reason for done in answers] == ["max_output_tokens"] * 3
            assert [message.text for message in await scene.stored(answers)] == texts(answers)
            assert scene.stream.getvalue() == written(texts(answers))
            assert await scene.tip() == answers[2].output_text
            assert proxy.num_cut == 2
            assert not server.host.running

    serve_sockets(body, local)
