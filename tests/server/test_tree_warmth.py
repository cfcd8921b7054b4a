"""What of a conversation's tree, and of an edit's prompt, is cached; and what the rest takes."""

from __future__ import annotations

import random

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.conversation import Conversation
from radixchat.server.local import LocalSettings
from radixchat.server.message import Message
from radixchat.server.prefill_rate import MIN_TOKENS, PrefillRate
from radixchat.server.service import ChatService
from radixchat.server.tree_warmth import branches, cached_tokens
from radixchat.tests.server.services import GREEDY, finish, serve


def test_hot_branches_and_cold_ones(settings: LocalSettings) -> None:
    """Each message's share of its prompt is cached but for a last token; after a flush none is."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        await finish(service.send(conversation, "One", GREEDY))
        await finish(service.send(conversation, "Two", GREEDY))
        done = await finish(service.edit(conversation, 2, "Deux", GREEDY))
        tree = await service.tree(conversation, warmth=True)
        path = [m for m in tree if m.on_path and m.tokens]
        total = sum(m.tokens or 0 for m in path)
        assert total == done.usage.input_tokens + (done.usage.kept_tokens or 0)
        for message in tree:
            if message.tokens is None:
                assert message.role == "system"  # it is rendered with the first turn
                continue
            assert message.cached is not None
            assert message.tokens - 1 <= message.cached <= message.tokens
        await service.host.engine.ask(lambda engine: engine.cache.flush(None))
        tree = await service.tree(conversation, warmth=True)
        assert {m.cached for m in tree} == {None, 0}
        assert {m.cached for m in await service.tree(conversation)} == {None}

    serve(body, settings)


def test_an_edit_before_it_is_made(settings: LocalSettings) -> None:
    """The report is of the prompt that the edit would send; with the segments' texts."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        for text in ("One", "Two 👩‍👩‍👧", "Three"):
            await finish(service.send(conversation, text, GREEDY))
        before = await service.stats()
        report = await service.inspect(conversation=conversation, text="Zwei", turn=2, texts=True)
        own = await service.inspect(conversation=conversation, turn=2, texts=True)
        assert own.cached_tokens == own.input_tokens - 1
        shown = "".join(segment.text or "" for segment in own.segments)
        assert "Two 👩‍👩‍👧" in shown
        assert "<|im_start|>" in shown
        assert "Three" not in shown
        assert await service.stats() == before, "nothing was computed"
        done = await finish(service.edit(conversation, 2, "Zwei", GREEDY))
        assert report.input_tokens == done.usage.input_tokens
        assert report.cached_tokens == done.usage.cached_tokens
        with pytest.raises(InvalidRequest, match="no turn 7"):
            await service.inspect(conversation=conversation, turn=7)

    serve(body, settings)


def test_how_long_the_rest_takes(settings: LocalSettings) -> None:
    """Unknown before a prompt of some length; then in proportion to what is missing."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        assert (await service.inspect(text="Hello")).computing_ms is None
        await finish(service.send(conversation, "word " * 50, GREEDY))
        report = await service.inspect(text="other " * 20)
        assert report.computing_ms is not None
        assert report.computing_ms > 0

    serve(body, settings)


def test_the_rate_is_that_of_most() -> None:
    """Nothing says nothing, a slow prompt not much, and what was long ago nothing any more."""
    rate = PrefillRate()
    rate.observe(0, 1000)
    rate.observe(MIN_TOKENS, 0)
    assert rate.predict(10) is None
    rate.observe(100, 10_000)
    assert rate.predict(10) == 1000
    for _ in range(2):
        rate.observe(100, 100)
    assert rate.predict(10) == 10
    for _ in range(9):
        rate.observe(100, 200)
    assert rate.predict(10) == 20


def test_short_prompts_correct_a_cold_one() -> None:
    """By themselves they say nothing of long ones; a token takes no longer than its share."""
    rate = PrefillRate()
    rate.observe(MIN_TOKENS // 2, 32)
    assert rate.predict(10) is None
    rate.observe(40, 1800)  # 45 ms a token: the first one of a process
    assert rate.predict(100) == 200
    assert rate.predict(1) == 32  # a step, however little there is in it
    assert rate.predict(0) == 0
    for _ in range(2):
        rate.observe(100, 100)
    assert rate.predict(100) == 100


def grown(rng: random.Random) -> list[Message]:
    """Messages of a tree, parents first; some hold a whole prompt, some are another model's."""
    found: list[Message] = []
    for number in range(rng.randint(1, 16)):
        parent = rng.choice([None, *(message.id for message in found)])
        tokens = tuple(rng.randrange(3) for _ in range(rng.randint(0, 3)))
        absolute, hash_ = rng.random() < 0.2, rng.choice("hhhhx")
        found.append(
            Message(str(number), parent, "user", "", tokens, absolute, "complete", hash_, 0.0)
        )
    return found


def test_the_branches_of_any_tree() -> None:
    """They are the paths to its ends, as they are joined one by one; each share is told once."""
    rng = random.Random(7)
    for _ in range(300):
        messages = grown(rng)
        prompts, shares = [], dict[str, tuple[int, int]]()
        for end in {m.id for m in messages} - {m.parent for m in messages}:
            path = [next(m for m in messages if m.id == end)]
            while (parent := path[0].parent) is not None:
                path.insert(0, next(m for m in messages if m.id == parent))
            counted, start = Conversation("", tuple(path)).since_absolute, 0
            if any(m.render_hash != "h" for m in counted):
                continue
            prompts.append(Conversation("", tuple(path)).token_ids)
            for message in (m for m in counted if m.token_ids):
                shares[message.id] = start, start + len(message.token_ids)
                start += len(message.token_ids)
        found = list(branches(messages, "h"))
        assert sorted(branch.token_ids for branch in found) == sorted(prompts)
        told = [(message, place) for branch in found for message, place in branch.shares.items()]
        assert len(told) == len(shares)
        assert dict(told) == shares


def test_what_branches_follow() -> None:
    """Of each the last message that a branch before it has too: where that is cold, so is this."""
    root = Message("r", None, "user", "", (1, 2), True, "complete", "h", 0.0)
    one = Message("a", "r", "assistant", "", (3,), False, "complete", "h", 0.0)
    two = Message("b", "r", "assistant", "", (4, 5), False, "complete", "h", 0.0)
    first, second = branches([root, one, two], "h")
    assert (first.token_ids, first.after) == ((1, 2, 3), None)
    assert (second.token_ids, second.after) == ((1, 2, 4, 5), "r")
    assert cached_tokens(first, 2) == {"r": (2, 2), "a": (1, 0)}
    assert cached_tokens(second, 3) == {"b": (2, 1)}
