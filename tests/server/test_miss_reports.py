"""What a response says of its cache miss: the service, its store and a real engine."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine import template_sandbox
from radixchat.engine.errors import ConversationNotFound
from radixchat.server.local import LocalSettings, open_service
from radixchat.server.protocol import MissReport, OutputTextDelta, ResponseDone
from radixchat.server.rows_message import Place, insert_message
from radixchat.server.service import ChatService
from radixchat.server.store import Store
from radixchat.server.store_file import StoreFile
from radixchat.tests.engine.driver import common_prefix
from radixchat.tests.server.services import GREEDY, LONG, finish, open_for, serve
from radixchat.tests.server.templates import DATED, THINKS, with_template
from radixchat.tests.slow_steps import slowed
from radixchat.tests.tiny_model import tiny_model_directory


def missed(done: ResponseDone) -> MissReport:
    assert done.status in {"completed", "incomplete"}
    assert done.miss is not None
    return done.miss


def reusable(earlier: ResponseDone, later: ResponseDone) -> int:
    """Leading tokens of the later prompt that the earlier response has computed."""
    return common_prefix(later.input_ids, [*earlier.input_ids, *earlier.output_ids][:-1])


async def ids(service: ChatService, conversation: str) -> list[str]:
    return [message.id for message in await service.messages(conversation)]


def test_the_first_turn_is_cold_and_what_reuses_everything_has_no_report(
    settings: LocalSettings,
) -> None:
    """Turns, another answer, an edit, an undo, a stopped answer: nothing is missed."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        first = await finish(service.send(conversation, "one", GREEDY))
        system = (await ids(service, conversation))[0]
        assert missed(first) == MissReport("cold", 0, system, None, None, 0, 0)
        turns = [await finish(service.send(conversation, text, GREEDY)) for text in ("two", "so?")]
        turns.append(await finish(service.regenerate(conversation, replace(GREEDY, seed=1))))
        turns.append(await finish(service.edit(conversation, 2, "to?", GREEDY)))
        turns.append(await finish(service.edit(conversation, 1, "One", GREEDY)))
        await service.undo(conversation)
        turns.append(await finish(service.send(conversation, "again", GREEDY)))
        with slowed(0.02):  # it is stopped in the middle
            async for event in service.send(conversation, "talk", LONG):
                match event:
                    case OutputTextDelta():
                        await service.cancel(event.response)
                    case ResponseDone():
                        turns.append(event)
        turns.append(await finish(service.send(conversation, "go on", GREEDY)))
        assert [turn.miss for turn in turns] == [None] * len(turns)
        assert all(turn.usage.cached_tokens > 0 for turn in turns)

    serve(body, settings)


def test_a_cache_that_is_off_misses_nothing(settings: LocalSettings) -> None:
    """Who has turned it off is not told every turn that it is."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        for text in ("one", "two"):
            assert (await finish(service.send(conversation, text, GREEDY))).miss is None

    serve(body, replace(settings, prefix_cache=False))


def test_evicted(settings: LocalSettings) -> None:
    """Another conversation has taken the room: how long ago, and how many tokens it cost."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        first = await finish(service.send(conversation, "a" * 60, GREEDY))
        other = await service.create_conversation()
        await finish(service.send(other, "b" * 120, GREEDY))
        second = await finish(service.send(conversation, "more", GREEDY))
        report, common = missed(second), reusable(first, second)
        assert report.evicted_seconds_ago is not None
        assert 0 <= report.evicted_seconds_ago < 60
        cached = second.usage.cached_tokens
        assert cached < common == len(first.input_ids) + len(first.output_ids) - 1
        assert replace(report, evicted_seconds_ago=None) == MissReport(
            reason="evicted",
            index=cached,
            message=(await ids(service, conversation))[0],
            expected_text=None,
            got_text=None,
            cache_missed_tokens=common - cached,
            comparison_reusable_tokens=common,
        )

    serve(body, replace(settings, pool_tokens=192))


def rewrite_system(database: Path, conversation: str, text: str) -> str:
    """Give the conversation another system message, and nothing after it; the message's id."""
    file = StoreFile(database)
    with file.writing() as db:
        root = insert_message(db, Place("local", True), parent=None, role="system", text=text)
        db.table("conversation").update(conversation, {"root": root, "tip": root})
    file.close()
    return root


def test_an_edited_system_prompt(settings: LocalSettings, path: Path) -> None:
    """The message, the first token that differs, and both texts."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("You are Ada, a poet.")
        await finish(service.send(conversation, "Hi", GREEDY))
        root = await asyncio.to_thread(
            rewrite_system, path, conversation, "You are Bob, a loud poet."
        )
        done = await finish(service.send(conversation, "Hi", GREEDY))
        index = len("?system\nYou are ")
        rest = r"<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n…"
        assert done.usage.cached_tokens == index
        assert missed(done) == MissReport(
            reason="changed",
            index=index,
            message=root,
            expected_text=rf"system\nYou are Ada, a poet.{rest}",
            got_text=rf"system\nYou are Bob, a loud poet.{rest}",
            cache_missed_tokens=len("Bob, a loud poet."),
            comparison_reusable_tokens=index,
        )

    serve(body, replace(settings, database=path))


class Clock(datetime.datetime):
    """A clock that stands still."""

    day = 3

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
        return cls(2026, 5, cls.day, tzinfo=tz)


def test_a_date_in_the_template(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day has changed between two turns: the template, in the head, at the date."""
    model = with_template(Path(settings.model), tmp_path / "dated", DATED)
    monkeypatch.setattr(template_sandbox, "datetime", Clock)

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        monkeypatch.setattr(Clock, "day", 3)
        first = await finish(service.send(conversation, "Hi", GREEDY))
        monkeypatch.setattr(Clock, "day", 4)
        second = await finish(service.send(conversation, "More", GREEDY))
        index = len("?day\n0")
        assert second.usage.cached_tokens == index
        report = missed(second)
        assert (report.reason, report.index) == ("template", index)
        assert report.message == (await ids(service, conversation))[0]
        rest = r"<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>…"
        assert report.expected_text == rf"<|im_start|>day\n03 May{rest}"
        assert report.got_text == rf"<|im_start|>day\n04 May{rest}"
        assert report.comparison_reusable_tokens == index
        had = len(first.input_ids) + len(first.output_ids) - 1
        before = len(second.input_ids) - len("?\n?user\nMore?\n?assistant\n")
        assert report.cache_missed_tokens == min(had, before) - index

    serve(body, replace(settings, model=str(model)))


def test_stripped_reasoning(settings: LocalSettings, tmp_path: Path) -> None:
    """The template cuts the reasoning out of the old answer: from there on all is new."""
    model = with_template(Path(settings.model), tmp_path / "thinks", THINKS)

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        first = await finish(service.send(conversation, "Hi", GREEDY))
        second = await finish(service.send(conversation, "More", GREEDY))
        index = len("?user\nHi?\n?assistant\n")
        report = missed(second)
        assert (report.reason, report.index) == ("template", index)
        assert report.message == (await ids(service, conversation))[1]
        assert report.comparison_reusable_tokens == index == second.usage.cached_tokens
        assert report.expected_text is not None
        assert report.got_text is not None
        assert report.expected_text.startswith(r"<|im_start|>assistant\n<think>\n")
        assert report.got_text.startswith(r"<|im_start|>assistant\n")
        assert "<think>" not in report.got_text.partition("<|im_end|>")[0]
        had = len(first.input_ids) + len(first.output_ids) - 1
        before = len(second.input_ids) - len("?\n?user\nMore?\n?assistant\n<think>\n")
        assert report.cache_missed_tokens == min(had, before) - index > 0

    serve(body, replace(settings, model=str(model)))


def test_another_tenant(settings: LocalSettings) -> None:
    """A conversation of somebody else's is not there, and what was cached for her is not told."""

    async def main() -> None:
        async with open_for(settings, "ada", "bob") as (ada, bob):
            conversation = await ada.create_conversation("Be brief.")
            await finish(ada.send(conversation, "Hi", GREEDY))
            with pytest.raises(ConversationNotFound):
                await finish(bob.send(conversation, "More", GREEDY))
            own = await bob.create_conversation("Be curt.")
            assert missed(await finish(bob.send(own, "Hi", GREEDY))).reason == "cold"

    asyncio.run(asyncio.wait_for(main(), 300))


def test_another_model(settings: LocalSettings, tmp_path: Path) -> None:
    """Its first turn computes everything again, because ids and KV are the other's."""

    async def begin(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation()
        return conversation, await finish(service.send(conversation, "one", GREEDY))

    conversation, first = serve(begin, settings)
    other = tiny_model_directory(tmp_path / "other", seed=1)

    async def go_on(service: ChatService) -> None:
        done = await finish(service.send(conversation, "two", GREEDY))
        first_message = (await ids(service, conversation))[0]
        had = len(first.input_ids) + len(first.output_ids) - 1
        before = len(done.input_ids) - len("?\n?user\ntwo?\n?assistant\n")
        missing = min(had, before)
        assert missed(done) == MissReport("model", 0, first_message, None, None, missing, 0)
        assert (await finish(service.send(conversation, "three", GREEDY))).miss is None

    serve(go_on, replace(settings, model=str(other)))


def test_expired(settings: LocalSettings) -> None:
    """A new process has an empty cache; its second turn misses nothing."""

    async def begin(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation()
        return conversation, await finish(service.send(conversation, "one", GREEDY))

    conversation, first = serve(begin, settings)

    async def go_on(service: ChatService) -> None:
        done = await finish(service.send(conversation, "two", GREEDY))
        first_message = (await ids(service, conversation))[0]
        common = reusable(first, done)
        assert common == len(first.input_ids) + len(first.output_ids) - 1
        assert missed(done) == MissReport("expired", 0, first_message, None, None, common, common)
        assert (await finish(service.send(conversation, "three", GREEDY))).miss is None

    serve(go_on, settings)


def test_unknown(settings: LocalSettings) -> None:
    """Another process has answered meanwhile: no reason is proven, so none is claimed."""

    async def body(service: ChatService) -> None:
        async with open_service(replace(settings, threads=1)) as elsewhere:
            conversation = await service.create_conversation()
            first = await finish(elsewhere.send(conversation, "one", GREEDY))
            done = await finish(service.send(conversation, "two", GREEDY))
            first_message = (await ids(service, conversation))[0]
            common = reusable(first, done)
            assert missed(done) == MissReport(
                "unknown", 0, first_message, None, None, common, common
            )

    serve(body, settings)


def test_a_forked_conversation_is_compared_with_the_one_it_came_from(
    settings: LocalSettings, path: Path
) -> None:
    """It has no response of its own yet: the maker of the last answer on its path counts."""

    def fork(conversation: str) -> str:
        with Store(path) as store:
            row = store.conversation(conversation, principal="local")
            forked = store.create_conversation(principal="local")
        file = StoreFile(path)
        with file.writing() as db:
            db.table("conversation").update(forked, {"tip": row.tip})
        file.close()
        return forked

    async def begin(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation()
        first = await finish(service.send(conversation, "one", GREEDY))
        forked = await asyncio.to_thread(fork, conversation)
        assert (await finish(service.send(forked, "two", GREEDY))).miss is None
        return await asyncio.to_thread(fork, conversation), first

    stored = replace(settings, database=path)
    forked, first = serve(begin, stored)

    async def go_on(service: ChatService) -> None:
        done = await finish(service.send(forked, "three", GREEDY))
        report = missed(done)
        assert (report.reason, report.comparison_reusable_tokens) == (
            "expired",
            reusable(first, done),
        )

    serve(go_on, stored)
