"""A service whose conversations outgrow the context: refused, or with the oldest turns left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import PromptTooLong
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseCreated, ResponseDone, ResponseOptions
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, both_ends, finish, serve
from radixchat.tests.server.templates import THINKS, with_template
from radixchat.tests.tiny_model import CONTEXT, tiny_model_directory

AUTO = replace(GREEDY, truncation="auto")
SYSTEM = "Be brief."
# The tiny model's tokens are characters; "?" stands for a control token.
HEAD = len(f"?system\n{SYSTEM}?\n?user\n")


def question(number: int) -> str:
    """All begin otherwise, so that prompts share what stands before it and no more."""
    return chr(ord("A") + number) + ">" + "x" * 30


async def fill(service: ChatService, conversation: str) -> list[ResponseDone]:
    """Turns until the next one does not fit."""
    done: list[ResponseDone] = []
    while len(done) < CONTEXT:
        try:
            done.append(await finish(service.send(conversation, question(len(done)), GREEDY)))
        except PromptTooLong:
            return done
    raise AssertionError("a context has an end")


async def say(
    service: ChatService, conversation: str, number: int
) -> tuple[ResponseCreated, ResponseDone]:
    return await both_ends(service.send(conversation, question(number), AUTO))


async def user_ids(service: ChatService, conversation: str) -> list[str]:
    return [m.id for m in await service.messages(conversation) if m.role == "user"]


def asked(settings: LocalSettings, done: ResponseDone) -> list[int]:
    """The numbers of the questions in a prompt."""
    text = Tokenizer.from_directory(Path(settings.model)).decode(done.input_ids)
    return [number for number in range(60) if question(number) in text]


def test_turns_are_left_out_seldom_and_the_cache_survives(settings: LocalSettings) -> None:
    """A cut keeps the system message cached; what follows one costs its new tokens, as ever."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        cuts: list[int] = []
        left_out: tuple[str, ...] = ()
        known = 0
        for number in range(40):
            created, done = await say(service, conversation, number)
            assert len(done.input_ids) <= CONTEXT - 10
            out = len(created.left_out) // 2
            assert asked(settings, done) == list(range(out, number + 1))
            messages = await service.messages(conversation)
            assert created.left_out == tuple(m.id for m in messages[1 : 1 + 2 * out])
            assert len(messages) == 1 + 2 * (number + 1)
            if created.left_out == left_out:
                assert done.usage.cached_tokens >= known
                assert done.miss is None or number == 0
            else:
                cuts.append(number)
                assert done.usage.cached_tokens == HEAD
                assert done.miss is not None
                assert (done.miss.reason, done.miss.index) == ("truncated", HEAD)
                assert done.miss.message == messages[1 + 2 * out].id
                assert done.miss.comparison_reusable_tokens == HEAD
            assert (created.left_out_tokens > 0) == bool(out)
            assert (done.left_out, done.left_out_tokens) == (
                created.left_out,
                created.left_out_tokens,
            )
            known, left_out = len(done.input_ids) + len(done.output_ids) - 1, created.left_out
        assert 5 <= len(cuts) <= 12

    serve(body, settings)


def test_without_it_the_turn_is_refused_and_with_it_the_conversation_goes_on(
    settings: LocalSettings,
) -> None:
    """It can be asked for at any turn; a refusal stores nothing."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        turns = await fill(service, conversation)
        stored = await service.messages(conversation)
        created, done = await say(service, conversation, len(turns))
        assert (await service.messages(conversation))[: len(stored)] == stored
        assert created.left_out
        whole = len(turns[-1].input_ids) + len(turns[-1].output_ids)
        assert created.left_out_tokens > 0
        assert len(done.input_ids) + created.left_out_tokens > whole
        # A turn that may not leave out anything is refused again, whatever was out before it.
        stored = await service.messages(conversation)
        for refused in (
            service.send(conversation, "And?", GREEDY),
            service.regenerate(conversation, GREEDY),
        ):
            with pytest.raises(PromptTooLong) as refusal:
                await finish(refused)
            assert refusal.value.num_tokens > service.n_ctx
        assert await service.messages(conversation) == stored
        plain, after = await both_ends(service.send(conversation, "And?", AUTO))
        assert plain.left_out == created.left_out
        assert after.usage.cached_tokens == len(done.input_ids) + len(done.output_ids) - 1

    serve(body, settings)


@pytest.mark.parametrize("limited_by", ["context", "pool"])
def test_what_does_not_fit_alone_is_refused(settings: LocalSettings, limited_by: str) -> None:
    """The system message and the newest turn always stay: then there is nothing to leave out."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        await finish(service.send(conversation, "one", AUTO))
        stored = await service.messages(conversation)
        with pytest.raises(PromptTooLong) as refusal:
            await finish(service.send(conversation, "x" * service.n_ctx, AUTO))
        assert refusal.value.limited_by == limited_by
        assert refusal.value.limit == service.n_ctx - 1
        assert refusal.value.num_tokens == service.n_ctx + HEAD + len("?\n?assistant\n")
        assert await service.messages(conversation) == stored
        # Less room than the answer may take is room all the same.
        long = "x" * (service.n_ctx - 1 - HEAD - len("?\n?assistant\n"))
        created, done = await both_ends(service.send(conversation, long, AUTO))
        assert (done.status, done.reason) == ("incomplete", "context_length")
        assert (len(created.left_out), len(done.output_ids)) == (2, 1)

    pool = 192 if limited_by == "pool" else None
    serve(body, replace(settings, pool_tokens=pool))


def test_regenerate_edit_and_undo_after_a_cut(settings: LocalSettings) -> None:
    """Each goes on from what it names: after the cut without the turns, before it with them."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        turns = await fill(service, conversation)
        last = len(turns)
        created, done = await say(service, conversation, last)
        again, answer = await both_ends(service.regenerate(conversation, AUTO))
        assert (again.left_out, answer.input_ids) == (created.left_out, done.input_ids)
        assert answer.output_ids == done.output_ids
        assert answer.usage.cached_tokens == len(done.input_ids) - 1
        await say(service, conversation, last + 1)
        # The turn that made the cut, asked otherwise, makes the same cut again.
        edited, other = await both_ends(
            service.edit(conversation, last + 1, question(last) + "!", AUTO)
        )
        assert edited.left_out == created.left_out
        assert asked(settings, other) == asked(settings, done)
        assert other.usage.cached_tokens > len(done.input_ids) - 20
        # A turn that had been left out has the conversation before it.
        early, third = await both_ends(service.edit(conversation, 3, "Now what?", AUTO))
        assert early.left_out == ()
        assert asked(settings, third) == [0, 1]
        assert third.usage.cached_tokens > 0
        for _ in range(3):
            await service.undo(conversation)
        first, fresh = await both_ends(service.send(conversation, "Hi", AUTO))
        assert (first.left_out, asked(settings, fresh)) == ((), [])

    serve(body, settings)


def test_an_answer_without_room_is_given_room_when_it_is_asked_for_again(
    settings: LocalSettings,
) -> None:
    """Its question is said again, after fewer turns; the old one stays in the tree."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        turns = await fill(service, conversation)
        ids = await user_ids(service, conversation)
        created, done = await both_ends(
            service.regenerate(conversation, replace(AUTO, max_output_tokens=60))
        )
        assert created.left_out
        assert len(done.input_ids) <= CONTEXT - 60
        assert asked(settings, done)[-1] == len(turns) - 1
        now = await user_ids(service, conversation)
        assert now[:-1] == ids[:-1]
        assert now[-1] != ids[-1]
        after = await finish(service.send(conversation, "And?", AUTO))
        known = len(done.input_ids) + len(done.output_ids) - 1
        assert after.usage.cached_tokens == known

    serve(body, settings)


def test_what_is_left_out_is_remembered(settings: LocalSettings, tmp_path: Path) -> None:
    """By a new process, and where another model goes on."""

    async def begin(service: ChatService) -> tuple[str, ResponseCreated, ResponseDone]:
        conversation = await service.create_conversation(SYSTEM)
        turns = await fill(service, conversation)
        return conversation, *await say(service, conversation, len(turns))

    conversation, created, done = serve(begin, settings)

    async def go_on(service: ChatService) -> ResponseDone:
        again, after = await both_ends(service.send(conversation, "And?", AUTO))
        assert again.left_out == created.left_out
        assert asked(settings, after) == asked(settings, done)
        return after

    after = serve(go_on, settings)
    assert after.input_ids[: len(done.input_ids)] == done.input_ids
    assert after.left_out_tokens == created.left_out_tokens
    assert after.miss is not None
    assert after.miss.reason == "expired"
    serve(go_on, replace(settings, model=str(tiny_model_directory(tmp_path / "other", seed=1))))


@pytest.mark.parametrize("options", [AUTO, GREEDY], ids=lambda options: options.truncation)
def test_what_was_left_out_is_back_where_there_is_room(
    settings: LocalSettings, options: ResponseOptions
) -> None:
    """In a larger pool the next turn is asked in full, and gone on from."""

    async def begin(service: ChatService) -> str:
        conversation = await service.create_conversation(SYSTEM)
        for number in range(4):
            created, _ = await say(service, conversation, number)
        assert created.left_out
        return conversation

    conversation = serve(begin, replace(settings, pool_tokens=192))

    async def go_on(service: ChatService) -> None:
        created, done = await both_ends(service.send(conversation, question(4), options))
        assert (created.left_out, created.left_out_tokens) == ((), 0)
        assert asked(settings, done) == [0, 1, 2, 3, 4]
        _, again = await both_ends(service.regenerate(conversation, options))
        assert (again.input_ids, again.output_ids) == (done.input_ids, done.output_ids)
        _, after = await both_ends(service.send(conversation, question(5), options))
        assert asked(settings, after) == [0, 1, 2, 3, 4, 5]
        assert after.usage.cached_tokens == len(done.input_ids) + len(done.output_ids) - 1

    serve(go_on, settings)


def test_a_template_that_rewrites_history_cuts_at_the_same_place_each_turn(
    settings: LocalSettings, tmp_path: Path
) -> None:
    """Its prompts are rendered anew, and yet the turns that are out stay out."""
    model = with_template(Path(settings.model), tmp_path / "thinks", THINKS)
    rewriting = replace(settings, model=str(model))

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(SYSTEM)
        changes, before = 0, 0
        for number in range(20):
            created, done = await say(service, conversation, number)
            changes += len(created.left_out) != before
            before = len(created.left_out)
            assert asked(rewriting, done) == list(range(before // 2, number + 1))
            assert len(done.input_ids) <= CONTEXT - 10
        assert 2 <= changes <= 6

    serve(body, rewriting)
