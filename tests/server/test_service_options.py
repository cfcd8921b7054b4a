"""What a client asks of one response, from the option to the stored answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseFormat, ResponseOptions
from radixchat.server.service import ChatService
from radixchat.server.store import Store
from radixchat.tests.server.services import GREEDY, finish, serve
from radixchat.tests.tiny_model import VOCABULARY

STOP_TOKEN = 258
# The id of a letter in the tiny model's vocabulary: bytes in the order of their characters.
LETTER = ord("a") - ord("!")


def likely(*biases: tuple[int, float]) -> ResponseOptions:
    return replace(GREEDY, logit_bias=biases)


def test_a_bias_decides_and_a_bad_word_forbids(settings: LocalSettings) -> None:
    """One letter, then the next best where it has been forbidden."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        letters = likely((LETTER, 100.0), (LETTER + 1, 50.0))
        done = await finish(service.send(conversation, "say a", letters))
        assert done.output_text == "a" * 10
        done = await finish(service.send(conversation, "say b", replace(letters, bad_words=("a",))))
        assert done.output_text == "b" * 10
        done = await finish(
            service.send(conversation, "say both", replace(letters, bad_words=("aaa",)))
        )
        assert done.output_text == "aabaabaaba"
        assert done.usage.cached_tokens > 0

    serve(body, settings)


def test_a_stop_text_ends_the_answer(settings: LocalSettings) -> None:
    """It is told, not shown and not kept; the next turn finds the rest cached."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        letters = replace(likely((LETTER, 100.0), (LETTER + 1, 50.0)), bad_words=("aaa",))
        options = replace(letters, stop=("xyz", "baab"))
        done = await finish(service.send(conversation, "talk", options))
        assert (done.status, done.output_text, done.stop) == ("completed", "aa", "baab")
        answer = (await service.messages(conversation))[-1]
        assert (answer.text, answer.status) == ("aa", "complete")
        after = await finish(service.send(conversation, "more", GREEDY))
        kept = (*done.input_ids, *done.output_ids[:2])
        assert after.input_ids[: len(kept)] == kept
        assert after.usage.cached_tokens == len(kept)
        late = replace(options, min_output_tokens=5)
        done = await finish(service.send(conversation, "later", late))
        assert (done.output_text, done.stop) == ("aabaa", "baab")

    serve(body, settings)


def test_stop_tokens_and_how_to_go_on_after_them(settings: LocalSettings) -> None:
    """They end an answer unless they are ignored, and not before its least length."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        ending = likely((STOP_TOKEN, 100.0))
        done = await finish(service.send(conversation, "end", ending))
        assert (done.status, done.output_ids) == ("completed", (STOP_TOKEN,))
        done = await finish(
            service.send(conversation, "end late", replace(ending, min_output_tokens=4))
        )
        assert (done.status, len(done.output_ids)) == ("completed", 5)
        assert STOP_TOKEN not in done.output_ids[:4]
        done = await finish(service.send(conversation, "go on", replace(ending, ignore_eos=True)))
        assert (done.status, done.reason) == ("incomplete", "max_output_tokens")
        assert done.output_ids == (STOP_TOKEN,) * 10

    serve(body, settings)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_an_answer_has_the_form_that_was_asked_for(
    settings: LocalSettings, temperature: float
) -> None:
    """Of a model that otherwise talks noise; the next answer is free again."""
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Ada", "Bob"]}, "old": {"type": "boolean"}},
        "required": ["name", "old"],
        "additionalProperties": False,
    }

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(GREEDY, temperature=temperature, max_output_tokens=100)

        async def ask(kind: str, value: str) -> str:
            wanted = replace(options, response_format=ResponseFormat(kind, value))
            done = await finish(service.send(conversation, kind, wanted))
            assert done.status == "completed"
            return done.output_text

        for _ in range(3):
            told = json.loads(await ask("json_schema", json.dumps(schema)))
            assert set(told) == {"name", "old"}
            assert told["name"] in {"Ada", "Bob"}
            assert isinstance(told["old"], bool)
        assert await ask("choice", '["yes", "no"]') in {"yes", "no"}
        assert await ask("regex", "[0-9]{3}-x") in {f"{n:03}-x" for n in range(1000)}
        await finish(service.send(conversation, "talk", GREEDY))

    serve(body, replace(settings, database=None))


def test_an_answer_ends_when_its_time_is_over(settings: LocalSettings) -> None:
    """As it is; an answer that is in time is as any other."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        hasty = replace(GREEDY, timeout_s=1e-6)
        done = await finish(service.send(conversation, "quick", hasty))
        assert (done.status, done.reason) == ("incomplete", "deadline")
        done = await finish(service.send(conversation, "slow", replace(GREEDY, timeout_s=60.0)))
        assert done.reason != "deadline"
        assert len(done.output_ids) > 0

    serve(body, settings)


def test_what_was_said_before_is_guessed_again(settings: LocalSettings) -> None:
    """Regenerate and edit draft from the branch that was left; no answer is another for it."""

    async def turns(service: ChatService, *, speculate: bool) -> list[tuple[int, ...]]:
        options = replace(GREEDY, max_output_tokens=40, speculate=speculate)
        conversation = await service.create_conversation()
        first = await finish(service.send(conversation, "Tell me", options))
        again = await finish(service.regenerate(conversation, options))
        edited = await finish(service.edit(conversation, 1, "Tell me", options))
        assert again.output_ids == first.output_ids
        for done in (again, edited):
            assert (done.usage.draft_tokens > 0) == (done.usage.accepted_tokens > 0) == speculate
        if speculate:
            assert again.usage.accepted_tokens > len(again.output_ids) // 2
        return [first.output_ids, again.output_ids, edited.output_ids]

    async def body(service: ChatService) -> None:
        assert await turns(service, speculate=True) == await turns(service, speculate=False)

    serve(body, settings)


def test_probabilities_are_told_on_request(settings: LocalSettings) -> None:
    """One for each token that was sampled, with as many others."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        plain = await finish(service.send(conversation, "Hi", GREEDY))
        assert plain.logprobs is None
        done = await finish(service.regenerate(conversation, replace(GREEDY, top_logprobs=3)))
        assert done.output_ids == plain.output_ids
        assert done.logprobs is not None
        assert len(done.logprobs) == len(done.output_ids)
        assert all(len(one.top) == 3 for one in done.logprobs)

    serve(body, settings)


def test_options_that_no_token_satisfies_fail_that_answer_only(settings: LocalSettings) -> None:
    """What contradicts itself is told as an invalid request, when it shows."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(GREEDY, response_format=ResponseFormat("choice", '["yes"]'))
        done = await finish(service.send(conversation, "Yes?", replace(options, bad_words=("y",))))
        assert done.status == "failed"
        assert done.error is not None
        assert done.error.code == "invalid_value"
        said = replace(options, stop=("y esx",), bad_words=("es",))
        said = replace(said, response_format=ResponseFormat("choice", '["y es"]'))
        done = await finish(service.send(conversation, "Yes?", said))
        assert (done.status, done.output_text) == ("failed", "y e")
        assert done.usage.cached_tokens > 0
        assert done.usage.output_tokens == 3
        done = await finish(service.send(conversation, "Yes?", options))
        assert (done.status, done.output_text) == ("completed", "yes")

    serve(body, settings)


def test_a_format_that_cannot_be_is_refused_before_anything_is_stored(
    settings: LocalSettings,
) -> None:
    """The conversation is as it was, and works."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        wanted = replace(GREEDY, response_format=ResponseFormat("json_schema", '{"type": 5}'))
        for events in (
            service.send(conversation, "Hi", wanted),
            service.send(conversation, "Hi", replace(GREEDY, logit_bias=((VOCABULARY, 1.0),))),
            service.send(conversation, "Hi", replace(GREEDY, seed=-1)),
        ):
            with pytest.raises(InvalidRequest):
                await finish(events)
        assert await service.messages(conversation) == []
        await finish(service.send(conversation, "Hi", GREEDY))

    serve(body, settings)


def test_options_are_stored_as_they_were_used(settings: LocalSettings) -> None:
    """With the seed that was drawn, so that an answer can be repeated from its record."""

    async def body(service: ChatService) -> tuple[str, int | None]:
        conversation = await service.create_conversation()
        options = replace(
            GREEDY, stop=("x",), response_format=ResponseFormat("choice", '["a"]'), priority=3
        )
        done = await finish(service.send(conversation, "Hi", options))
        assert done.response is not None
        return done.response, done.seed

    response, seed = serve(body, settings)
    assert settings.database is not None
    with Store(settings.database) as store:
        stored = store.response(response, principal="local").options
    assert stored["seed"] == seed
    assert (stored["stop"], stored["priority"]) == (["x"], 3)
    assert stored["response_format"] == {"kind": "choice", "value": '["a"]'}


def test_who_leaves_while_his_format_is_compiled_leaves_nothing(
    settings: LocalSettings,
) -> None:
    """Whenever that is; the next one with that format is served."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(GREEDY, response_format=ResponseFormat("regex", "(ab|cd){1,3}"))
        for delay in (0.0, 0.001, 0.01):
            task = asyncio.create_task(finish(service.send(conversation, "Hi", options)))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait({task})
        done = await finish(service.send(conversation, "Hi", options))
        assert done.output_text[:2] in {"ab", "cd"}

    serve(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_a_service_closes_while_an_answer_has_a_form(
    settings: LocalSettings, tmp_path: Path
) -> None:
    """The answer is stored as far as it came, and no thread stays behind."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(
            GREEDY, max_output_tokens=400, response_format=ResponseFormat("regex", "a{300,}")
        )
        events = service.send(conversation, "talk", options)
        for _ in range(3):
            await anext(events)
        await service.host.close()
        await events.aclose()

    serve(body, settings)
    assert settings.database is not None
    with Store(settings.database) as store:
        latest = store.latest(principal="local")
        assert latest is not None
        path = store.path(store.conversation(latest, principal="local").tip, principal="local")
    assert path[-1].status == "interrupted"
    assert set(path[-1].text) == {"a"}


def test_an_answer_of_one_step_has_no_speed(settings: LocalSettings) -> None:
    """Asked again, the whole answer is a draft that holds."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        short = replace(GREEDY, max_output_tokens=5)
        first = await finish(service.send(conversation, "Hi", short))
        again = await finish(service.regenerate(conversation, short))
        assert again.output_ids == first.output_ids
        assert again.usage.accepted_tokens == 4
        assert again.timings.first_tokens == 5
        assert again.timings.predicted_ms == 0
        assert again.timings.predicted_per_second(again.usage) is None
        speed = first.timings.predicted_per_second(first.usage)
        assert speed is not None
        assert speed < 100_000

    serve(body, settings)
