"""The checks that the real `openai` SDK makes of a server; runs in an environment that has it.

\b
    python openai_sdk_script.py http://127.0.0.1:8000/v1 KEY

Prints a line for each check that holds; the first that does not ends it with its traceback. Imports
nothing of ours: it is what a user of OpenAI's own API would write. The SDK is imported by name, for
the environment that checks types does not have it.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

openai: Any = importlib.import_module("openai")
pydantic: Any = importlib.import_module("pydantic")

OPENING = ("created", "in_progress", "output_item.added", "content_part.added")
CLOSING = ("output_text.done", "content_part.done", "output_item.done")
ENDS = ("response.completed", "response.incomplete", "response.failed")
SYSTEM = "You are a helpful assistant who answers briefly. " * 8
SHORT: Mapping[str, Any] = {"max_output_tokens": 24, "temperature": 0}
CHAT: Mapping[str, Any] = {"max_tokens": 24, "temperature": 0}
WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class User:
    """client: an AsyncOpenAI. model: the first that it lists."""

    client: Any
    model: str


class City(pydantic.BaseModel):  # type: ignore[misc]  # the base is imported by name
    """What a structured answer is to be."""

    name: str
    is_large: bool


async def read(connection: Any) -> AsyncIterator[Any]:
    """Events up to the end of one response."""
    async for event in connection:
        yield event
        if event.type in ENDS:
            return
        assert event.type != "error", event


async def respond(connection: Any, **fields: Any) -> Any:
    """One response over the socket, from its create to its end; the `Response` at its end."""
    await connection.response.create(**{**SHORT, **fields})
    return [event async for event in read(connection)][-1].response


async def refusal(request: Awaitable[Any]) -> Exception:
    """What it raises; that it raises nothing is an error."""
    try:
        await request
    except Exception as error:  # noqa: BLE001 - the WebSocket library has classes of its own
        return error
    raise AssertionError("it was not refused")


def is_numbered(events: Sequence[Any]) -> bool:
    """From 0 upwards; deltas that were merged on the way leave a gap."""
    numbers = [event.sequence_number for event in events]
    return numbers[0] == 0 and numbers == sorted(set(numbers))


def in_cache(response: Any) -> tuple[int, int]:
    """Tokens of the input, and how many of them were cached."""
    return response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens


async def models_are_listed(user: User) -> str:
    """By `models.list` and `models.retrieve`."""
    models = [model.id async for model in user.client.models.list()]
    assert (await user.client.models.retrieve(models[0])).id == models[0]
    return f"{models}"


async def a_socket_streams(user: User) -> str:
    """The events in OpenAI's order, numbered from 0; the deltas are the text."""
    async with user.client.responses.connect() as connection:
        await connection.response.create(input="Name a colour.", instructions=SYSTEM, **SHORT)
        events = [event async for event in read(connection)]
    kinds = [event.type.removeprefix("response.") for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert tuple(kinds[:4]) == OPENING, kinds
    assert tuple(kinds[-4:-1]) == CLOSING, kinds
    assert set(kinds[4:-4]) == {"output_text.delta"}, kinds
    assert is_numbered(events), events
    response = events[-1].response
    text = "".join(event.delta for event in deltas)
    assert text == response.output_text == events[-4].text, (text, response.output_text)
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens > 0
    assert 0 <= usage.input_tokens_details.cached_tokens < usage.input_tokens
    assert usage.output_tokens_details.reasoning_tokens == 0
    return f"{len(deltas)} deltas, {usage.input_tokens} + {usage.output_tokens} tokens"


async def a_next_turn_reads_cached_tokens(user: User) -> str:
    """All of the turn before, but for its last sampled token, comes from the cache."""
    async with user.client.responses.connect() as connection:
        first = await respond(connection, input="Name an animal.", instructions=SYSTEM)
        second = await respond(
            connection, input="And another.", instructions=SYSTEM, previous_response_id=first.id
        )
    asked, cached = in_cache(second)
    assert second.previous_response_id == first.id
    assert cached >= first.usage.total_tokens - 1, (cached, first.usage)
    assert asked > cached
    return f"{cached} of {asked} tokens"


async def a_fork_runs_on_a_second_lane(user: User) -> str:
    """Two continuations of one answer at the same time, each on its lane and from the cache."""
    async with user.client.responses.connect() as connection:
        first = await respond(connection, input="Name a city.", instructions=SYSTEM)
        for lane, text in (("main", "Why that one?"), ("fork", "Say it in French.")):
            await connection.response.create(
                input=text, instructions=SYSTEM, previous_response_id=first.id, stream_id=lane,
                max_output_tokens=32, temperature=0,
            )  # fmt: skip
        lanes: dict[str, list[Any]] = {"main": [], "fork": []}
        order = []
        while not all(events and events[-1].type in ENDS for events in lanes.values()):
            event = await connection.recv()
            assert event.type != "error", event
            lanes[event.stream_id].append(event)
            order.append(event.stream_id)
    ends = [events[-1].response for events in lanes.values()]
    assert ends[0].id != ends[1].id
    assert all(each.previous_response_id == first.id for each in ends)
    known = first.usage.total_tokens - 1
    assert all(in_cache(each)[1] >= known for each in ends), [in_cache(each) for each in ends]
    assert all(is_numbered(events) for events in lanes.values()), lanes
    switches = sum(left != right for left, right in itertools.pairwise(order))
    assert switches > 1, "one lane waited for the other"
    return f"{known} tokens known to both, the lanes took {switches} turns"


async def a_warm_up_generates_nothing(user: User) -> str:
    """What follows finds its prompt in the cache: by its id, and with the same input."""
    text = "Here is a list of numbers: " + ", ".join(map(str, range(100, 160))) + "."
    async with user.client.responses.connect() as connection:
        warm = await respond(connection, input=text, instructions=SYSTEM, generate=False)
        assert warm.status == "completed"
        assert (warm.output, warm.output_text) == ([], "")
        assert warm.usage.output_tokens == 0
        same = await respond(connection, input=text, instructions=SYSTEM)
        after = await respond(
            connection, input="Which is the first?", instructions=SYSTEM,
            previous_response_id=warm.id,
        )  # fmt: skip
    asked, cached = in_cache(same)
    assert cached == asked - 1, (asked, cached)
    assert in_cache(after)[1] > warm.usage.input_tokens - 10, (in_cache(after), warm.usage)
    return f"{cached} of {asked} tokens, then {in_cache(after)[1]} of {in_cache(after)[0]}"


async def a_hit_is_diagnosed(user: User) -> str:
    """`prompt_cache_diagnostics` of a turn that found all that was there."""
    async with user.client.responses.connect() as connection:
        first = await respond(connection, input="Name a river.", instructions=SYSTEM)
        second = await respond(
            connection, input="Where is it?", instructions=SYSTEM, previous_response_id=first.id,
            prompt_cache_options={"comparison_response_id": first.id},
        )  # fmt: skip
    assert second.prompt_cache_diagnostics.type == "cache_hit", second
    return f"{second.prompt_cache_diagnostics.type}"


async def an_answer_ends_at_its_length(user: User) -> str:
    """As `response.incomplete`, with OpenAI's reason; metadata comes back."""
    async with user.client.responses.connect() as connection:
        response = await respond(
            connection, input="Tell me a long story.", max_output_tokens=16, metadata={"user": "7"}
        )
    assert (response.status, response.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )
    assert response.usage.output_tokens == 16
    assert response.metadata == {"user": "7"}
    return f"{response.incomplete_details.reason}"


async def a_refusal_leaves_the_socket_open(user: User) -> str:
    """An `error` event with OpenAI's code; the next request is answered."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("previous_response_not_found", {"previous_response_id": "resp_none"}),
        ("model_not_found", {"model": "gpt-none"}),
        ("context_length_exceeded", {"input": "word " * 20_000}),
    ]
    async with user.client.responses.connect() as connection:
        for code, fields in wrong:
            await connection.response.create(**{"input": "Hi", **SHORT, **fields})
            event = await connection.recv()
            assert event.type == "error", event
            assert event.error.code == code, (code, event)
            assert 400 <= event.status < 500
        assert (await respond(connection, input="Hi")).output_text
    return ", ".join(code for code, _ in wrong)


async def handlers_are_called(user: User) -> str:
    """`connection.on` and `dispatch_events`, as the SDK's own examples do it."""
    seen: list[str] = []
    async with user.client.responses.connect() as connection:
        connection.on("response.output_text.delta", lambda event: seen.append(event.delta))

        async def stop(_event: Any) -> None:
            await connection.close()

        for kind in ENDS:
            connection.on(kind, stop)
        await connection.response.create(input="Say hello.", **SHORT)
        await connection.dispatch_events()
    assert seen
    return f"{len(seen)} deltas"


async def an_answer_is_cancelled(user: User) -> str:
    """Over HTTP while it streams on the socket, which gets its end."""
    async with user.client.responses.connect() as connection:
        await connection.response.create(input="Write a very long story.", max_output_tokens=2000)
        created = (await connection.recv()).response
        while (await connection.recv()).type != "response.output_text.delta":
            pass
        await user.client.responses.cancel(created.id)
        end = [event async for event in read(connection)][-1].response
    assert (end.id, end.status) == (created.id, "cancelled")
    assert (await user.client.responses.retrieve(end.id)).status == "cancelled"
    return f"after {end.usage.output_tokens} tokens"


async def responses_over_http(user: User) -> str:
    """Create, stream, retrieve, go on reading, list the input, delete."""
    first = await user.client.responses.create(input="Name a tree.", instructions=SYSTEM, **SHORT)
    assert first.output_text
    stream = await user.client.responses.create(
        input="And a flower.", previous_response_id=first.id, stream=True, **SHORT
    )
    events = [event async for event in stream]
    assert events[0].type == "response.created"
    assert events[-1].type in ENDS
    last = events[-1].response
    again = await user.client.responses.retrieve(last.id)
    assert again.output_text == last.output_text
    rest = await user.client.responses.retrieve(last.id, stream=True, starting_after=3)
    tail = [event async for event in rest]
    assert tail[0].sequence_number > 3
    assert tail[-1].response.output_text == last.output_text
    items = [item async for item in user.client.responses.input_items.list(last.id)]
    assert any("And a flower." in str(item.content) for item in items), items
    await user.client.responses.delete(last.id)
    gone = await refusal(user.client.responses.retrieve(last.id))
    assert isinstance(gone, openai.NotFoundError), repr(gone)
    return f"{len(events)} events, {len(items)} items"


async def a_conversation_goes_on(user: User) -> str:
    """`conversations.create`; its answers follow each other, its items are listed."""
    conversation = await user.client.conversations.create(metadata={"topic": "tests"})
    for text in ("Name a fruit.", "Is it sweet?"):
        response = await user.client.responses.create(
            input=text, conversation=conversation.id, **SHORT
        )
        assert response.conversation.id == conversation.id
    asked, cached = in_cache(response)
    assert cached > 0
    items = [
        item async for item in user.client.conversations.items.list(conversation.id, order="asc")
    ]
    roles = [item.role for item in items]
    assert roles == ["user", "assistant"] * 2, roles
    assert (await user.client.conversations.retrieve(conversation.id)).metadata == {
        "topic": "tests"
    }
    assert (await user.client.conversations.delete(conversation.id)).deleted
    return f"{len(items)} items, {cached} of {asked} tokens cached"


async def chat_completions(user: User) -> str:
    """The whole history each time; what was said before is found in the cache."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "A metal?"}]
    first = await user.client.chat.completions.create(model=user.model, messages=messages, **CHAT)
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "Is it heavy?"},
    ]
    second = await user.client.chat.completions.create(model=user.model, messages=messages, **CHAT)
    assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= first.usage.total_tokens - 1, (cached, first.usage)
    assert first.choices[0].finish_reason in ("stop", "length")
    return f"{cached} of {second.usage.prompt_tokens} tokens cached"


async def chat_completions_stream(user: User) -> str:
    """Deltas are the same answer; usage comes in a last chunk of its own."""
    messages = [{"role": "user", "content": "Name a planet."}]
    whole = await user.client.chat.completions.create(model=user.model, messages=messages, **CHAT)
    stream = await user.client.chat.completions.create(
        model=user.model,
        messages=messages,
        stream=True,
        stream_options={"include_usage": True},
        **CHAT,
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    cached = chunks[-1].usage.prompt_tokens_details.cached_tokens
    assert cached == chunks[-1].usage.prompt_tokens - 1
    return f"{len(chunks)} chunks, {cached} tokens cached"


async def several_choices_with_logprobs(user: User) -> str:
    """n, stop, seed, logprobs: as OpenAI's."""
    answer = await user.client.chat.completions.create(
        model=user.model, messages=[{"role": "user", "content": "Count: one, two,"}], n=2, seed=1,
        stop=["."], logprobs=True, top_logprobs=3, max_tokens=12,
    )  # fmt: skip
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all("." not in choice.message.content for choice in answer.choices)
    tokens = answer.choices[0].logprobs.content
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)
    return f"2 choices, {len(tokens)} tokens with 3 alternatives"


async def tools_are_called(user: User) -> str:
    """A required call has arguments that fit its schema; its result is taken and answered."""
    messages: list[Any] = [{"role": "user", "content": "How is the weather in Paris?"}]
    asked = {"model": user.model, "tools": [WEATHER], "temperature": 0, "max_tokens": 200}
    answer = await user.client.chat.completions.create(
        messages=messages, tool_choice="required", **asked
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert (call.type, call.function.name, list(arguments)) == (
        "function",
        "get_weather",
        ["city"],
    )
    named = {"type": "function", "function": {"name": "get_weather"}}
    stream = await user.client.chat.completions.create(
        messages=messages, tool_choice=named, stream=True, **asked
    )
    parts = [c.choices[0].delta.tool_calls async for c in stream if c.choices]
    calls = [part[0] for part in parts if part]
    assert json.loads("".join(c.function.arguments or "" for c in calls)) == arguments
    assert calls[0].function.name == "get_weather"
    messages += [
        choice.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": '{"celsius": 21}'},
    ]
    after = await user.client.chat.completions.create(messages=messages, **asked)
    assert after.choices[0].message.content or after.choices[0].message.tool_calls
    return f"{call.function.name}({call.function.arguments}), {len(calls)} parts when streamed"


async def a_schema_is_kept(user: User) -> str:
    """`chat.completions.parse` and `responses.parse` give objects of the class."""
    question = "Describe Rome as JSON."
    answer = await user.client.chat.completions.parse(
        model=user.model, messages=[{"role": "user", "content": question}], response_format=City,
        temperature=0, max_tokens=300,
    )  # fmt: skip
    city = answer.choices[0].message.parsed
    assert isinstance(city, City), answer
    response = await user.client.responses.parse(
        input=question, text_format=City, temperature=0, max_output_tokens=300
    )
    assert isinstance(response.output_parsed, City), response
    return f"{city!r} and {response.output_parsed!r}"


async def errors_are_the_sdk_s_classes(user: User) -> str:
    """A wrong key, an unknown model, a prompt that is too long, a wrong value."""
    hello = [{"role": "user", "content": "Hi"}]
    long = [{"role": "user", "content": "word " * 20_000}]
    chat, responses = user.client.chat.completions.create, user.client.responses.create
    stranger = user.client.with_options(api_key="rc_wrong")
    cases: list[tuple[str, str, Awaitable[Any]]] = [
        (
            "AuthenticationError", "invalid_api_key",
            stranger.chat.completions.create(model=user.model, messages=hello),
        ),
        ("NotFoundError", "model_not_found", chat(model="gpt-none", messages=hello)),
        ("NotFoundError", "model_not_found", responses(model="gpt-none", input="Hi")),
        ("BadRequestError", "context_length_exceeded", chat(model=user.model, messages=long)),
        ("BadRequestError", "context_length_exceeded", responses(input="word " * 20_000)),
        ("BadRequestError", "invalid_value", chat(model=user.model, messages=hello, top_p=7)),
        ("NotFoundError", "response_not_found", user.client.responses.retrieve("resp_none")),
    ]  # fmt: skip
    for name, code, request in cases:
        found = await refusal(request)
        assert (type(found).__name__, getattr(found, "code", None)) == (name, code), repr(found)
    return ", ".join(f"{name} {code}" for name, code, _ in cases)


async def a_stranger_s_socket_is_refused(user: User) -> str:
    """Before it is one, with the status of HTTP."""
    stranger = user.client.with_options(api_key="rc_wrong")
    error = await refusal(stranger.responses.connect().enter())
    status = getattr(getattr(error, "response", None), "status_code", None)
    assert status == 401, repr(error)
    return f"{type(error).__name__} {status}"


async def without_asyncio(user: User) -> str:
    """The synchronous client, over HTTP and over a socket."""

    def talk() -> tuple[str, int]:
        plain = openai.OpenAI(base_url=user.client.base_url, api_key=user.client.api_key)
        answer = plain.chat.completions.create(
            model=user.model, messages=[{"role": "user", "content": "Say yes."}], **CHAT
        )
        with plain.responses.connect() as connection:
            connection.response.create(input="Say no.", **SHORT)
            for count, event in enumerate(connection):
                if event.type in ENDS:
                    return answer.choices[0].message.content, count
        raise AssertionError("the socket closed")

    text, count = await asyncio.to_thread(talk)
    assert text
    assert count > 4
    return f"{count} events"


CHECKS = (
    models_are_listed,
    a_socket_streams,
    a_next_turn_reads_cached_tokens,
    a_fork_runs_on_a_second_lane,
    a_warm_up_generates_nothing,
    a_hit_is_diagnosed,
    an_answer_ends_at_its_length,
    a_refusal_leaves_the_socket_open,
    handlers_are_called,
    an_answer_is_cancelled,
    responses_over_http,
    a_conversation_goes_on,
    chat_completions,
    chat_completions_stream,
    several_choices_with_logprobs,
    tools_are_called,
    a_schema_is_kept,
    errors_are_the_sdk_s_classes,
    a_stranger_s_socket_is_refused,
    without_asyncio,
)


async def main(base_url: str, key: str) -> None:
    """Run every check, one after the other."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        models = [model.id async for model in client.models.list()]
        user = User(client, models[0])
        for function in CHECKS:
            said = await function(user)
            sys.stdout.write(f"ok  {function.__name__.replace('_', ' ')}: {said}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
