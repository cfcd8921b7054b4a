"""Two turns with the model that a chat would use: whether the second finds the first one cached.

The conversation is kept in memory only. The engine is imported here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from radixchat.chat_cli.checkup import Problem, Section
from radixchat.chat_cli.model_loading import local_settings
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import RadixChatError, ResponseDone, ResponseOptions

_WORDS = ("Name one colour.", "And another one.")
_ANSWER = ResponseOptions(temperature=0, max_output_tokens=16)


@dataclass(frozen=True, slots=True)
class _TwoTurns:
    """first, second: how they ended. notices: what was to be told of the model."""

    first: ResponseDone
    second: ResponseDone
    notices: tuple[str, ...]


def two_turns(settings: ChatSettings) -> Section:
    """What each took from the cache, and how fast it was."""
    from radixchat.engine.model_store import ModelStore
    from radixchat.engine.warm_up import compiled_folder

    title = "two turns"
    try:
        if ModelStore.default().find(settings.model) is None:
            help_ = f"radixchat models pull {settings.model}"
            return Section(title, {}, (Problem(f"{settings.model} is not here", help_),))
        on_cpu = local_settings(settings).engine_config().arithmetic().device == "cpu"
        if on_cpu and compiled_folder() is None:
            problem = Problem("kernels are not compiled yet", "radixchat models pull does it")
            return Section(title, {}, (problem,))
        took = asyncio.run(_take(settings))
    except RadixChatError as error:
        help_ = "another model, or the setting that it names"
        return Section(title, {}, (Problem(f"{settings.model}: {error}", help_),))
    facts = {"first": _described(took.first), "second": _described(took.second)}
    problems = [
        Problem(f"a turn failed: {done.error.message}", "quote this page in a bug report")
        for done in (took.first, took.second)
        if done.error is not None
    ]
    usage = took.first.usage
    # The last token of an answer is sampled, and never computed.
    reusable = usage.input_tokens + usage.output_tokens - 1
    if not problems and took.second.usage.cached_tokens < reusable and settings.prefix_cache:
        found = took.second.usage.cached_tokens
        help_ = "; ".join(took.notices) or "quote this page in a bug report"
        problems.append(Problem(f"the second turn found {found} of {reusable} tokens", help_))
    return Section(title, facts, problems)


async def _take(settings: ChatSettings) -> _TwoTurns:
    from radixchat.server.local import open_service

    ended = []
    async with open_service(replace(local_settings(settings), database=None)) as service:
        conversation = await service.create_conversation()
        for words in _WORDS:
            async for event in service.send(conversation, words, _ANSWER):
                if isinstance(event, ResponseDone):
                    ended.append(event)
        return _TwoTurns(ended[0], ended[1], service.notices)


def _described(done: ResponseDone) -> str:
    usage, timings = done.usage, done.timings
    text = f"cached {usage.cached_tokens} of {usage.input_tokens} tokens"
    if timings.ttft_ms is not None:
        text += f", first token after {timings.ttft_ms:,.0f} ms"
    if timings.predicted_ms and usage.output_tokens > 1:
        rate = (usage.output_tokens - 1) / timings.predicted_ms * 1000
        text += f", {rate:,.1f} tokens/s"
    return text
