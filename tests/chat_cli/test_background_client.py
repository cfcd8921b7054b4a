"""Conversations before there is a model, without one, and with another one."""

from __future__ import annotations

import asyncio
import json
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.chat_cli.background_client import BackgroundClient, open_background, open_loaded
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.client import ChangesModel, ChatClient, Waits
from radixchat.chat_cli.loading_thread import LoadingThread
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import (
    ConfigError,
    ConversationLocked,
    ModelLoadError,
    ResponseCreated,
    ResponseDone,
    ResponseOptions,
    ServerDraining,
)
from radixchat.server.store import Store
from radixchat.tests.chat_cli.gated_model import GatedModel
from radixchat.tests.chat_cli.scripted import messages_of, run_script, tiny_settings
from radixchat.tests.tiny_model import tiny_model_directory

BRIEF = ResponseOptions(temperature=0, max_output_tokens=4)
ME = "local"


class Heard:
    """News as they came: notes, errors, and what was shown while somebody waited."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.errors: list[str] = []
        self.shown: list[str] = []
        self.waits = asyncio.Event()
        self.note = self.notes.append
        self.error = self.errors.append

    def during(self, text: str) -> AbstractContextManager[None]:
        """Take note of it, and that somebody waits."""
        self.shown.append(text)
        self.waits.set()
        return nullcontext()


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    return tiny_settings(tiny_model, tmp_path / "s.db")


@pytest.fixture
def gated(tiny_model: Path, tmp_path: Path) -> GatedModel:
    return GatedModel(tiny_model, tmp_path / "gated")


@asynccontextmanager
async def behind(settings: ChatSettings, heard: Heard) -> AsyncIterator[BackgroundClient]:
    """As at a prompt: nothing waits for the model but what needs it."""
    thread = LoadingThread()
    async with open_background(settings, thread, heard, waits=False) as client:
        yield client
    thread.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    """Run it, for a minute at most."""

    async def main() -> None:
        async with asyncio.timeout(60):
            await body()

    asyncio.run(main())


async def answer(client: ChatClient, conversation: str, text: str = "hello") -> ResponseDone:
    """Its last event."""
    done = [event async for event in client.send(conversation, text, BRIEF)][-1]
    assert isinstance(done, ResponseDone)
    return done


def test_before_the_model_is_there(settings: ChatSettings, gated: GatedModel) -> None:
    """What is read comes at once; what needs the model waits, is told so, and is answered."""
    run_script(settings, "one", "two")
    heard = Heard()

    async def body() -> None:
        async with behind(replace(settings, model=str(gated.folder)), heard) as client:
            await client.model.start()
            conversation = await client.latest_conversation()
            assert conversation is not None
            assert (await client.conversations())[0].id == conversation
            assert (await client.conversation(conversation)).num_turns == 2
            assert await client.resolve_conversation(conversation[:12]) == conversation
            assert len(await client.messages(conversation)) == 4
            assert len(await client.tree(conversation, warmth=True)) == 4
            assert [hit.conversation for hit in await client.search("two")] == [conversation]
            assert "two" in await client.export(conversation, "markdown")
            assert (client.model_name, client.n_ctx) == ("gated (loading)", 0)
            await client.close_conversation(conversation)

            asked = asyncio.create_task(answer(client, conversation))
            priced = asyncio.create_task(client.inspect(conversation=conversation))
            await heard.waits.wait()
            assert not asked.done()
            await asyncio.to_thread(gated.open)
            assert (await asked).status == "incomplete"
            assert (await priced).input_tokens > 0
            assert (client.model_name, client.n_ctx) == ("gated", 4096)
            assert (await client.tree(conversation, warmth=True))[0].tokens is not None

    run(body)
    assert heard.shown == ["loading gated …"]
    assert (heard.notes, heard.errors) == ([], [])


def test_nobody_need_wait(settings: ChatSettings, gated: GatedModel) -> None:
    """Who stops waiting gets an error, and the loading goes on."""
    heard = Heard()

    async def body() -> None:
        async with behind(replace(settings, model=str(gated.folder)), heard) as client:
            assert isinstance(client, Waits)
            await client.model.start()
            asked = asyncio.create_task(client.create_conversation())
            await heard.waits.wait()
            client.stop_waiting()
            with pytest.raises(ServerDraining, match="nothing was sent, the model is not loaded"):
                await asked
            await asyncio.to_thread(gated.open)
            assert await client.create_conversation()

    run(body)


def test_who_leaves_does_not_wait(settings: ChatSettings, gated: GatedModel) -> None:
    """The block ends while the thread still works, and the store is closed."""
    thread = LoadingThread()

    async def body() -> None:
        slow = replace(settings, model=str(gated.folder))
        async with open_background(slow, thread, Heard(), waits=False) as client:
            await client.model.start()
            await asyncio.sleep(0)
        assert thread.is_busy
        await asyncio.to_thread(gated.open)

    run(body)
    thread.close()


def test_a_model_that_is_not_there(settings: ChatSettings) -> None:
    """It is told with a way out; what is read is there, the rest refused; another one answers."""
    run_script(settings, "one")
    heard = Heard()

    async def body() -> None:
        async with behind(replace(settings, model="./nowhere.gguf"), heard) as client:
            await client.model.start()
            with pytest.raises(ModelLoadError, match=r"no model is loaded: .*nowhere") as refused:
                await client.create_conversation()
            reason = refused.value.__cause__
            assert reason is not None
            frames = [frame.name for frame in traceback.extract_tb(reason.__traceback__)]
            assert "load_model" not in frames, "its weights would stay with the error"
            assert [text for text in heard.errors if "nowhere.gguf" in text] == heard.errors != []
            assert len(heard.errors) == 1
            assert "/model NAME" in heard.notes[0]
            conversation = await client.latest_conversation()
            assert conversation is not None
            assert client.model_name == "./nowhere.gguf (not loaded)"
            assert len(await client.tree(conversation, warmth=True)) == 2
            with pytest.raises(ModelLoadError, match="no model is loaded"):
                await answer(client, conversation)

            assert isinstance(client, ChangesModel)
            await client.change_model(settings.model)
            assert (await answer(client, conversation)).status == "incomplete"

    run(body)
    assert len(messages_of(settings)) == 4


@pytest.mark.parametrize("name", ["./nowhere.gguf", "cut"])
def test_a_model_whose_files_are_wrong(settings: ChatSettings, tmp_path: Path, name: str) -> None:
    """They are looked at first: nothing has changed, and the one that answered still does."""
    cut = tiny_model_directory(tmp_path / "cut") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:100])

    async def body() -> None:
        async with behind(settings, Heard()) as client:
            await client.model.start()
            service = await client.model.service()
            with pytest.raises(ModelLoadError):
                await client.change_model(str(tmp_path / name) if name == "cut" else name)
            assert client.model.opened is service
            assert (client.model_name, client.n_ctx) == ("tiny", 4096)

    run(body)


def test_a_model_that_cannot_be_loaded_after_all(settings: ChatSettings, tmp_path: Path) -> None:
    """The one before answers again, and it is told."""
    odd = tiny_model_directory(tmp_path / "odd")
    file = odd / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    last = tokenizer["added_tokens"][-1]
    # More tokens than the model has: only both together tell.
    more = [{**last, "id": last["id"] + n, "content": f"<{n}>"} for n in range(1, 9)]
    tokenizer["added_tokens"] += more
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    heard = Heard()

    async def body() -> None:
        async with behind(settings, heard) as client:
            await client.model.start()
            await client.change_model(str(odd))
            assert (await answer(client, await client.create_conversation())).error is None
            assert client.model_name == "tiny"
        async with open_loaded(settings, heard.note) as loaded:
            with pytest.raises(ModelLoadError, match="do not belong together"):
                await loaded.change_model(str(odd))
            assert (await answer(loaded, await loaded.create_conversation())).error is None

    run(body)
    assert len(heard.errors) == 1
    assert heard.errors[0].endswith("do not belong together; tiny answers again")


def test_a_conversation_goes_on_with_another_model(settings: ChatSettings, tmp_path: Path) -> None:
    """The same texts, other tokens: all of them are computed, and the reason is the model."""
    other = tiny_model_directory(tmp_path / "other", seed=1)

    async def body() -> None:
        async with open_loaded(settings, lambda _: None) as client:
            conversation = await client.create_conversation()
            await answer(client, conversation)
            before = client.model.opened
            assert before is not None
            engine = weakref.ref(before.host.engine)
            del before
            await client.change_model(str(other))
            assert engine() is None, "two models at once need the memory of both"
            assert (client.model_name, client.n_ctx) == ("other", 512)
            done = await answer(client, conversation, "and now?")
            assert done.miss is not None
            assert done.miss.reason == "model"
            assert len(await client.messages(conversation)) == 4

    run(body)


def test_what_is_not_to_be_kept(settings: ChatSettings) -> None:
    """No list shows it, no other chat goes on with it, and it is gone with the run."""

    async def body() -> None:
        async with open_loaded(replace(settings, log=False), lambda _: None) as client:
            conversation = await client.create_conversation("be kind")
            await answer(client, conversation)
            fork = await client.fork_conversation(conversation)
            await answer(client, fork.id)
            assert len(await client.messages(fork.id)) == 5
            assert await client.latest_conversation() is None
            assert await client.conversations() == []
            assert await client.search("kind") == []
            with Store(settings.database) as elsewhere:
                assert elsewhere.conversation(fork.id, principal=ME).num_turns == 2

    run(body)
    with Store(settings.database) as store:
        assert store.conversations(principal=ME, limit=9) == []
        assert store.verify() == []
    assert b"be kind" not in settings.database.read_bytes()


def test_settings_that_cannot_be(settings: ChatSettings) -> None:
    """Who waits for the model gets the error as it is."""

    async def body() -> None:
        with pytest.raises(ConfigError, match="pool_tokens"):
            async with open_loaded(replace(settings, pool_tokens=1), lambda _: None):
                pass

    run(body)


def test_model_in_a_script(settings: ChatSettings, tmp_path: Path) -> None:
    """/model has another one answer the lines that follow, if it is there."""
    other = tiny_model_directory(tmp_path / "other", seed=1)
    plain = replace(settings, json=False, ids=False)
    done = run_script(plain, "one", f"/model {other}", "/model", "two")
    assert done.code == 0
    assert "\nmodel: other\n" in done.stderr
    assert "model    other\ncontext  512 tokens\n" in done.stderr

    done = run_script(plain, "/model ./nowhere.gguf", "three")
    assert done.code == 69
    assert "error: there is no file ./nowhere.gguf\n" in done.stderr
    assert [m.text for m in messages_of(settings) if m.role == "user"] == ["three"]


def test_a_conversation_that_is_being_answered(settings: ChatSettings) -> None:
    """It is waited for; that can be stopped, and does not last for ever."""

    async def body() -> None:
        heard = Heard()
        async with behind(settings, heard) as client:
            await client.model.start()
            conversation = await client.create_conversation()
            await answer(client, conversation, "one")
            endless = client.send(conversation, "two", ResponseOptions(max_output_tokens=4000))
            created = await anext(endless)
            assert isinstance(created, ResponseCreated)

            client.backoff = Backoff(busy_s=0)
            with pytest.raises(ConversationLocked):
                await answer(client, conversation)
            with pytest.raises(ConversationLocked):
                await client.undo(conversation)

            client.backoff = Backoff(busy_s=3600)
            heard.waits.clear()
            asked = asyncio.create_task(answer(client, conversation))
            await heard.waits.wait()
            client.stop_waiting()
            with pytest.raises(ConversationLocked):
                await asked

            heard.waits.clear()
            asked = asyncio.create_task(answer(client, conversation, "three"))
            await heard.waits.wait()
            assert "being answered elsewhere" in heard.shown[-1]
            await client.cancel(created.response)
            assert [event async for event in endless]
            assert (await asked).status == "incomplete"
            texts = [m.text for m in await client.messages(conversation) if m.role == "user"]
            assert texts == ["one", "two", "three"]

    run(body)
