"""The service in this process and a client at a server: the same calls, values and refusals."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from radixchat.chat_cli.answer_request import AnswerRequest
from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.client import ChatClient
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import (
    OutputTextDelta,
    RadixChatError,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseFormat,
    ResponseOptions,
    describe_error,
)
from radixchat.tests.server.sockets import open_server

SHORT = ResponseOptions(temperature=0.0, seed=1, max_output_tokens=6)
# The test's model never ends an answer by itself: this one is complete.
WHOLE = dataclasses.replace(SHORT, response_format=ResponseFormat("choice", '["yes"]'))
UNKNOWN = ("conv_0123456789ABCDEFGHJKMNPQRS", "nobody", "", "x" * 300, "conv_\ud800")
PREFIXES = ("con", "conv_", "\ud800" * 4)
# What differs from run to run: of these only whether there is one.
TIMES = {
    "created_at", "updated_at", "timings", "computing_ms", "seconds_idle", "evicted_seconds_ago",
    "exported_at", "sequence", "ttft_ms", "prompt_ms", "predicted_ms", "queue_ms",
}  # fmt: skip
_ID = re.compile(r"\b(conv|resp)_[0-9A-Z]{26}\b")


class Watched:
    """A client, and which parts of its interface were used."""

    def __init__(self, client: ChatClient) -> None:
        self.used: set[str] = set()
        self._client = client

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self._client, name)


async def tried(asked: Awaitable[Any]) -> Any:
    """What it returns; of a refusal its class and all that a person or a program is told."""
    try:
        return await asked
    except RadixChatError as error:
        return (type(error).__name__, str(error), describe_error(error))


async def answered(events: AsyncGenerator[ResponseEvent]) -> Any:
    """An answer's first event, its text, and its end; how the text was cut is not compared."""
    seen = [event async for event in events]
    created, done = seen[0], seen[-1]
    assert isinstance(created, ResponseCreated)
    text = "".join(event.delta for event in seen if isinstance(event, OutputTextDelta))
    # On the wire a response tells of the options that OpenAI has a name for.
    told = ResponseOptions(max_output_tokens=created.options.max_output_tokens)
    return dataclasses.replace(created, options=told), text, done


def response_of(answer: Any) -> str:
    done = answer[-1]
    assert isinstance(done, ResponseDone)
    assert done.response is not None
    return done.response


async def turns(client: ChatClient, *texts: str, system: str | None = None) -> str:
    """A conversation with these turns, each with a short answer."""
    conversation = await client.create_conversation(system)
    for text in texts:
        await answered(client.send(conversation, text, SHORT))
    return conversation


async def nothing_yet(client: ChatClient) -> Any:
    return await client.latest_conversation(), await client.conversations()


async def the_server(client: ChatClient) -> Any:
    stats = await client.stats()
    return client.model_name, client.n_ctx, client.notices, sorted(set(stats) - {"server"})


async def making(client: ChatClient) -> Any:
    made = [await client.create_conversation(system) for system in (None, "be brief", "")]
    return (
        [await client.conversation(conversation) for conversation in made],
        [await client.messages(conversation) for conversation in made],
        await tried(client.create_conversation("\ud800")),
    )


async def finding(client: ChatClient) -> Any:
    first, second = await turns(client, "one"), await turns(client, "two", "three")
    await client.create_conversation()
    listed = await client.conversations(limit=3)
    return (
        await client.latest_conversation() == second,
        await client.resolve_conversation(first[:-1]) == first,
        listed,
        await client.conversations(limit=1, after=listed[0].id),
        [await tried(client.conversations(after=id_)) for id_ in UNKNOWN],
        [await tried(client.conversations(limit=limit)) for limit in (0, -1, 2000)],
        [
            await tried(client.resolve_conversation(id_))
            for id_ in (*UNKNOWN, "con", "conv_", "\ud800\ud800\ud800\ud800")
        ],
        [await tried(client.conversation(id_)) for id_ in UNKNOWN],
        [await tried(client.messages(id_)) for id_ in UNKNOWN],
    )


async def naming(client: ChatClient) -> Any:
    conversation = await turns(client, "one")
    rename = client.update_conversation
    return (
        [await rename(conversation, title=title) for title in ("a name", "", "ü" * 1000)],
        await tried(rename(conversation, title="ü" * 1001)),
        await tried(rename(conversation, title="x" * 1001, system="x")),
        await tried(rename(conversation, title="\ud800")),
        await tried(rename(conversation)),
        [await tried(rename(id_, title="x")) for id_ in UNKNOWN],
    )


async def branches(client: ChatClient) -> Any:
    conversation = await turns(client, "one", system="be brief")
    (tree,) = [await client.tree(conversation)]
    first = await answered(client.edit(conversation, 1, "two", SHORT))
    other = await turns(client, "elsewhere")
    move = client.update_conversation
    return (
        await move(conversation, tip=tree[-1].id),
        await move(conversation, tip=response_of(first), title="both"),
        [
            await tried(move(conversation, tip=tip))
            for tip in (*UNKNOWN, (await client.messages(other))[-1].id, "resp_none")
        ],
        [await tried(move(id_, tip=tree[-1].id)) for id_ in UNKNOWN],
        await client.tree(conversation),
        await client.tree(conversation, warmth=True),
        [await tried(client.tree(id_)) for id_ in UNKNOWN],
        [await tried(client.tree(id_, warmth=True)) for id_ in UNKNOWN],
    )


async def systems(client: ChatClient) -> Any:
    seen: list[Any] = []
    for texts in ((), ("one", "two")):
        conversation = await turns(client, *texts, system="be brief")
        for system in ("be long", "be long", ""):
            changed = await client.update_conversation(conversation, system=system)
            seen += [changed, await client.messages(conversation)]
        seen.append(await answered(client.send(conversation, "and now?", SHORT)))
    refused = client.update_conversation
    return (
        seen,
        await tried(refused(conversation, system="\ud800")),
        [await tried(refused(id_, system="x")) for id_ in UNKNOWN],
    )


async def forks(client: ChatClient) -> Any:
    conversation = await turns(client, "one", "two", system="be brief")
    messages = await client.messages(conversation)
    response = response_of(await answered(client.send(conversation, "three", SHORT)))
    fork = client.fork_conversation
    made = [
        await fork(conversation),
        await fork(conversation, at=messages[2].id, title="a fork"),
        await fork(conversation, at=response),
    ]
    return (
        made,
        [await client.messages(view.id) for view in made],
        [await tried(fork(conversation, at=at)) for at in (*UNKNOWN, "resp_none")],
        [await tried(fork(id_)) for id_ in UNKNOWN],
        [await tried(fork(conversation, title=title)) for title in ("\ud800", "x" * 1001)],
    )


async def deleting(client: ChatClient) -> Any:
    conversation = await turns(client, "one")
    running = await turns(client, "one")
    events = client.send(running, "two", dataclasses.replace(SHORT, max_output_tokens=2000))
    await anext(events)
    await client.delete_conversation(conversation)
    await client.delete_conversation(running)
    await events.aclose()
    return (
        [await tried(client.delete_conversation(id_)) for id_ in (conversation, *UNKNOWN)],
        await tried(client.conversation(running)),
    )


async def searching(client: ChatClient) -> Any:
    conversation = await turns(client, "a zebra in the room", "and a zebrafish")
    await client.update_conversation(conversation, title="animals")
    queries = ("zebra", '"in the room"', "nowhere", "", "?", "\ud800", "z" * 2000)
    return (
        [await tried(client.search(query, limit=5)) for query in queries],
        [await tried(client.search("zebra", limit=limit)) for limit in (0, -1, 101)],
    )


async def exporting(client: ChatClient) -> Any:
    conversation = await turns(client, "one", "two", system="be brief")
    await answered(client.regenerate(conversation, SHORT))
    return (
        json.loads(await client.export(conversation, "json")),
        re.sub(r"begun .* UTC", "begun", await client.export(conversation, "markdown")),
        [await tried(client.export(id_, "json")) for id_ in UNKNOWN],
        (await tried(client.export(conversation, "pdf")))[0],
    )


async def inspecting(client: ChatClient) -> Any:
    conversation = await turns(client, "one", "two and more", system="be brief")
    inspect = client.inspect
    return (
        await inspect(),
        await inspect(text="one"),
        await inspect(conversation=conversation),
        await inspect(conversation=conversation, text="three", texts=True),
        await inspect(conversation=conversation, turn=2, text="two and less", texts=True),
        await inspect(conversation=conversation, turn=1),
        [await tried(inspect(conversation=conversation, turn=turn, text="x")) for turn in (3, 99)],
        [(await tried(inspect(conversation=conversation, turn=turn)))[0] for turn in (0, -1, 1001)],
        [await tried(inspect(conversation=id_, text="x")) for id_ in UNKNOWN],
        await tried(inspect(conversation=conversation, text="\ud800")),
        await client.cache_tree(),
        await client.cache_tree(conversation),
        [await tried(client.cache_tree(id_)) for id_ in UNKNOWN],
    )


async def sending(client: ChatClient) -> Any:
    conversation = await client.create_conversation("be brief")
    long = "word " * (client.n_ctx + 50)
    wrong = ResponseOptions(response_format=ResponseFormat("regex", "("))

    def send(text: str, options: ResponseOptions = SHORT) -> Awaitable[Any]:
        return tried(answered(client.send(conversation, text, options)))

    return (
        [await send(text) for text in ("one", "two\n\nlines", "", "  ", "\ud800", long, 9 * long)],
        await send("three", wrong),
        await send("four", WHOLE),
        [await tried(answered(client.send(id_, "x", SHORT))) for id_ in UNKNOWN],
    )


async def editing(client: ChatClient) -> Any:
    conversation = await turns(client, "one", "two")

    def edit(turn: int, text: str = "x") -> Awaitable[Any]:
        return tried(answered(client.edit(conversation, turn, text, SHORT)))

    return (
        [await edit(turn, "another one") for turn in (2, 1)],
        [await edit(turn) for turn in (2, 99)],
        [(await edit(turn))[0] for turn in (0, -1)],
        await edit(1, "\ud800"),
        [await tried(answered(client.edit(id_, 1, "x", SHORT))) for id_ in UNKNOWN],
        await client.tree(conversation),
    )


async def again(client: ChatClient) -> Any:
    conversation, empty = await turns(client, "one"), await client.create_conversation()
    second = await answered(client.regenerate(conversation, dataclasses.replace(SHORT, seed=2)))
    third = await answered(client.sibling(response_of(second), WHOLE))
    return (
        second,
        third,
        await answered(client.sibling(response_of(third), SHORT)),
        await client.messages(conversation),
        await client.tree(conversation),
        await client.update_conversation(conversation, tip=response_of(third)),
        await client.messages(conversation),
        await tried(answered(client.regenerate(empty, SHORT))),
        [await tried(answered(client.regenerate(id_, SHORT))) for id_ in UNKNOWN],
        [
            await tried(answered(client.sibling(id_, SHORT)))
            for id_ in (*UNKNOWN, "resp_0123456789ABCDEFGHJKMNPQRS")
        ],
    )


async def going_on(client: ChatClient) -> Any:
    conversation, empty = await turns(client, "one"), await client.create_conversation()
    longer = [
        await answered(
            client.extend(conversation, dataclasses.replace(SHORT, max_output_tokens=size))
        )
        for size in (12, 20)
    ]
    seen = await client.messages(conversation), await client.tree(conversation)
    await answered(client.send(conversation, "two", WHOLE))
    return (
        longer,
        seen,
        await tried(answered(client.extend(conversation, SHORT))),
        await tried(answered(client.extend(empty, SHORT))),
        [await tried(answered(client.extend(id_, SHORT))) for id_ in UNKNOWN],
    )


async def taking_back(client: ChatClient) -> Any:
    conversation = await turns(client, "one", "two", system="be brief")
    return (
        [await tried(client.undo(conversation)) for _ in range(3)],
        [await tried(client.undo(id_)) for id_ in UNKNOWN],
        await client.messages(conversation),
        await tried(client.open_conversation(conversation)),
        [await tried(client.open_conversation(id_)) for id_ in UNKNOWN],
        await tried(client.close_conversation(conversation)),
        await tried(client.close_conversation("conv_none")),
    )


async def stopping(client: ChatClient) -> Any:
    conversation = await client.create_conversation()
    endless = dataclasses.replace(SHORT, max_output_tokens=3000, speculate=False)
    ended: list[ResponseDone] = []
    async for event in client.send(conversation, "one", endless):
        if isinstance(event, ResponseCreated):
            await client.cancel(event.response)
        if isinstance(event, ResponseDone):
            ended.append(event)
    (done,) = ended
    await client.cancel(str(done.response))
    return (
        (done.status, done.reason, done.error),
        [await tried(client.cancel(id_)) for id_ in UNKNOWN],
        [(m.role, m.status) for m in await client.messages(conversation)],
    )


CASES: tuple[Callable[[ChatClient], Awaitable[Any]], ...] = (
    nothing_yet, the_server, making, finding, naming, branches, systems, forks, deleting, searching,
    exporting, inspecting, sending, editing, again, going_on, taking_back, stopping,
)  # fmt: skip


def plain(value: Any, names: dict[str, str]) -> Any:
    """A value as JSON would have it, without times; ids by when they came first."""

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{found[1]}-{len(names)}")

    match value:
        case str():
            return _ID.sub(named, value)
        case Mapping():
            return {
                _ID.sub(named, str(key)): (each is not None if key in TIMES else plain(each, names))
                for key, each in value.items()
            }
        case tuple() | list():
            return [plain(each, names) for each in value]
        case _ if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return [type(value).__name__, plain(fields, names)]
        case _:
            return value


async def outcomes(client: ChatClient) -> tuple[dict[str, Any], set[str]]:
    """What each case gives, and the parts of the interface that they use."""
    watched, names, found = Watched(client), dict[str, str](), dict[str, Any]()
    for case in CASES:
        found[case.__name__] = plain(await case(cast(ChatClient, watched)), names)
    return found, watched.used


@pytest.fixture(scope="module")
def both(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[dict[str, Any], set[str]]]:
    """The outcomes in the process, and at a server."""
    folder = tmp_path_factory.mktemp("parity")

    async def main() -> list[tuple[dict[str, Any], set[str]]]:
        here = LocalSettings(model=str(tiny_model), database=folder / "here.db")
        there = LocalSettings(model=str(tiny_model), database=folder / "there.db")
        async with open_server(here) as server:
            inside = await outcomes(server.host.service("local"))
        quick = Backoff(busy_s=0.1)
        asking = AnswerRequest(token_ids=True)
        async with (
            open_server(there) as server,
            AsyncChatClient(server.url, request=asking, backoff=quick) as client,
        ):
            return [inside, await outcomes(client)]

    return asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_the_same_values(both: list[tuple[dict[str, Any], set[str]]], case: str) -> None:
    """What a call returns or is refused with does not tell where it was answered."""
    (here, _), (there, _) = both
    assert there[case] == here[case]


def test_every_method_has_a_case(both: list[tuple[dict[str, Any], set[str]]]) -> None:
    """What the interface has is used by the cases, all of it, here and there."""
    wanted = {name for name in dir(ChatClient) if not name.startswith("_")}
    assert len(wanted) > 20
    for _, used in both:
        assert used == wanted
