"""Notes that come while there is an input line, and while there is none."""

from __future__ import annotations

import asyncio

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from radixchat.chat_cli.news_above import NewsAbove
from radixchat.tests.chat_cli.consoles import notes


def test_without_an_input_line() -> None:
    """They are written at once."""
    speaker, errors = notes()
    news = NewsAbove(speaker)
    news.note("one")
    news.error("two")
    assert errors.getvalue() == "note: one\nerror: two\n"


def test_above_an_input_line() -> None:
    """They are written in their order, when the line can be taken away and drawn again."""
    speaker, errors = notes()
    news = NewsAbove(speaker)

    async def run() -> str:
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            session: PromptSession[str] = PromptSession()
            drawn = asyncio.Event()
            reading = asyncio.create_task(session.prompt_async("> ", pre_run=drawn.set))
            await drawn.wait()
            news.note("one")
            news.error("two")
            assert errors.getvalue() == ""
            await news.close()
            assert errors.getvalue() == "note: one\nerror: two\n"
            keys.send_text("hello\r")
            return await reading

    assert asyncio.run(run()) == "hello"
