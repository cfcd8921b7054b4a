"""Conversations on the page, in a real browser over a real socket, with a model that never ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from radixchat.chat_cli.settings import DEFAULT_ANSWER
from radixchat.server.heading import heading
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.browser import browse, idle, open_page, say, site_of
from radixchat.tests.server.sockets import Server, open_server
from radixchat.tests.slow_steps import slowed
from radixchat.tests.tiny_model import endless_model_directory

STEP_S = 0.01  # so that there is a middle of an answer
SHORT, LONG = 24, 3000
LOADING = "503 (Service Unavailable)"
DOWN = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "WebSocket connection to")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return endless_model_directory(tmp_path_factory.mktemp("endless"), 4096)


@pytest.fixture
def local(endless: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(endless), database=tmp_path / "chat.db")


async def length(page: Page, tokens: int) -> None:
    """From now on answers have so many tokens, and two to one message are not the same."""
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_label("Tokens of an answer").fill(str(tokens))
    await page.get_by_label("Temperature").fill("1.5")
    await page.get_by_role("button", name="Save", exact=True).click()


def messages(page: Page, role: str = "") -> Locator:
    return page.locator(f".message{role and f'.{role}'}")


async def act(page: Page, role: str, number: int, action: str) -> None:
    """Press one of a message's buttons."""
    await messages(page, role).nth(number).get_by_role("button", name=action).first.click()


async def writing(page: Page, number: int) -> str:
    """Until an answer has some text; returns it."""
    body = messages(page).nth(number).locator(".body")
    await expect(body).not_to_be_empty()
    return await body.inner_text()


async def tree(server: Server) -> list[dict[str, Any]]:
    """The messages on the path of the conversation used last."""
    async with server.client() as client:
        listed = await client.ask("session.list")
        replied = await client.ask("session.tree", session_id=listed["sessions"][0]["id"])
    return [message for message in replied["messages"] if message["on_path"]]


async def shown_as(page: Page, number: int, text: str) -> bool:
    """Whether a message of the page is what its text, shown at once, would be."""
    compare = """async ({ number, text }) => {
        const { MarkdownView } = await import("/web/markdown_view.js");
        const whole = document.createElement("div");
        whole.className = "body";
        new MarkdownView(whole, () => {}).replace(text);
        return whole.isEqualNode(document.querySelectorAll(".message .body")[number]);
    }"""
    return bool(await page.evaluate(compare, {"number": number, "text": text}))


def test_a_conversation_on_the_page(local: LocalSettings) -> None:
    """Turns, a stop, an edit, another answer, a fork, a reload in mid-answer; the tree."""

    async def body(page: Page, server: Server) -> None:
        await length(page, SHORT)
        await say(page, "What is <b>paged</b> attention?")
        await idle(page)
        await say(page, "And why?")
        await idle(page)
        await expect(messages(page)).to_have_count(4)
        await expect(messages(page).nth(0)).to_contain_text("What is <b>paged</b> attention?")
        await expect(messages(page).nth(1).locator(".tokens")).to_contain_text(
            "23 tokens from memory"
        )
        await expect(messages(page).nth(2).locator(".tokens")).to_contain_text("computed now")
        await expect(messages(page).nth(3).locator(".usage")).to_contain_text("tokens cached (")

        await length(page, LONG)
        await say(page, "Never end.")
        await writing(page, 5)
        await page.keyboard.press("Escape")
        await idle(page)
        await expect(messages(page).nth(5)).to_contain_text("Stopped.")
        assert await shown_as(page, 5, (await tree(server))[5]["text"])

        await length(page, SHORT)
        await act(page, "user", 1, "Edit")
        await page.get_by_label("Edit your message").fill("And why not?")
        await page.get_by_label("Edit your message").press("Enter")
        await idle(page)
        await expect(messages(page)).to_have_count(4)
        await act(page, "user", 1, "Earlier version")
        await expect(messages(page)).to_have_count(6)
        await expect(messages(page).nth(2)).to_contain_text("And why?")
        await act(page, "assistant", 1, "Answer again")
        await idle(page)
        await expect(messages(page)).to_have_count(4)
        await expect(messages(page).nth(3).get_by_role("group")).to_have_accessible_name(
            "Version 2 of 2"
        )
        await act(page, "user", 1, "Later version")
        await expect(messages(page).nth(2)).to_contain_text("And why not?")
        await act(page, "user", 1, "Earlier version")
        await expect(messages(page).nth(2)).to_contain_text("And why?")
        await expect(messages(page)).to_have_count(4)
        await expect(page.locator("#cache svg[role=img] .link")).to_have_count(2)

        await act(page, "assistant", 0, "Fork from here")
        await expect(messages(page)).to_have_count(2)
        await expect(page.locator("#list a")).to_have_count(2)
        await expect(page.locator("#title")).to_have_text("What is <b>paged</b> attention? (fork)")
        await say(page, "Go another way.")
        await idle(page)
        await expect(page.locator("#cache svg[role=img] .link")).to_have_count(3)
        await expect(page.get_by_role("img", name="in 4 branches")).to_be_visible()

        await length(page, LONG)
        await say(page, "Never end again.")
        before = await writing(page, 5)
        await page.reload()
        after = await writing(page, 5)
        assert after.startswith(before[: len(before) // 2])
        await expect(messages(page).nth(5).locator(".progress")).to_be_empty()
        await expect(page.get_by_role("button", name="Stop")).to_be_enabled()
        await page.keyboard.press("Escape")
        await idle(page)
        assert await shown_as(page, 5, (await tree(server))[5]["text"])
        assert await page.locator("img, iframe, object, .message script").count() == 0

    with slowed(STEP_S):
        browse(body, local, viewport={"width": 1280, "height": 800})


def test_how_long_answers_may_be(local: LocalSettings) -> None:
    """As in the terminal, unless the settings say otherwise; an empty field is no limit."""

    async def body(page: Page, server: Server) -> None:
        asked = """async () => {
            const { Preferences } = await import("/web/preferences.js");
            return new Preferences().options().body.max_output_tokens;
        }"""
        assert await page.evaluate(asked) == DEFAULT_ANSWER.max_output_tokens
        await page.get_by_role("button", name="Settings").click()
        field = page.get_by_label("Tokens of an answer")
        await expect(field).to_have_value(str(DEFAULT_ANSWER.max_output_tokens))
        await expect(field).to_have_attribute("placeholder", "no limit")
        await field.fill("")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.reload()
        assert await page.evaluate(asked) is None

    browse(body, local)


def test_conversations_without_a_title(local: LocalSettings) -> None:
    """The list and the heading show how they begin."""

    async def body(page: Page, server: Server) -> None:
        service = server.host.service("local")
        conversation = await service.create_conversation()
        text = "How do\n\x1bparrots talk? " + "Tell me. " * 20
        options = replace(DEFAULT_ANSWER, max_output_tokens=3)
        async for _ in service.send(conversation, text, options):
            pass
        await page.goto(f"{site_of(server)}#{conversation}")
        await page.reload()
        shown = heading("", text)
        await expect(page.locator("#title")).to_have_text(shown)
        await expect(page.locator("#list .title")).to_have_text(shown)

    browse(body, local)


@dataclass(slots=True)
class Line:
    """A TCP line to a server that can be cut."""

    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def cut(self) -> None:
        """Every connection is gone, without a word."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()


@asynccontextmanager
async def line_to(port: int) -> AsyncIterator[Line]:
    """A port of its own that leads to another."""
    line = Line()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        line.writers += [writer, back]
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        line.port = server.sockets[0].getsockname()[1]
        yield line
        line.cut()


@pytest.mark.slow
def test_a_lost_socket_costs_nothing(local: LocalSettings) -> None:
    """An answer whose connection is cut five times is shown whole, once, and as it is stored."""

    async def main() -> None:
        async with (
            open_server(local) as server,
            line_to(int(site_of(server).split(":")[2].strip("/"))) as line,
            open_page(f"http://127.0.0.1:{line.port}/", allowed=DOWN) as page,
        ):
            await length(page, 1500)
            await say(page, "Hello")
            await writing(page, 1)
            for _ in range(5):
                line.cut()
                await page.wait_for_timeout(300)
                before = await writing(page, 1)
                await page.evaluate("dispatchEvent(new Event('online'))")
                while len(await writing(page, 1)) <= len(before):
                    await page.wait_for_timeout(50)
                assert await page.locator(".send.stop").count() == 1, "there is no more to come"
            await idle(page)
            await expect(messages(page)).to_have_count(2)
            path = await tree(server)
            assert [message["role"] for message in path] == ["user", "assistant"]
            assert await shown_as(page, 1, path[1]["text"])

    with slowed(STEP_S):
        asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.slow
def test_a_restarted_server_goes_on_with_the_answer(local: LocalSettings) -> None:
    """The page waits, connects again by itself, and the answer goes on where it stopped."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        serve = replace(ServeSettings(), port=probe.getsockname()[1])

    async def main() -> None:
        async with contextlib.AsyncExitStack() as browsers:
            async with open_server(local, serve) as server:
                page = await browsers.enter_async_context(
                    open_page(site_of(server), allowed=(*DOWN, LOADING))
                )
                await length(page, 600)
                await say(page, "Hello")
                before = await writing(page, 1)
            await expect(page.locator("#connection")).to_contain_text("Trying again")
            async with open_server(local, serve) as server:
                await page.evaluate("dispatchEvent(new Event('online'))")
                await expect(messages(page, "busy")).to_have_count(1)
                await idle(page)
                path = await tree(server)
                assert [message["role"] for message in path] == ["user", "assistant"]
                assert await shown_as(page, 1, path[1]["text"])
                assert (await writing(page, 1)).startswith(before[: len(before) // 2])
                await browsers.aclose()

    with slowed(STEP_S):
        asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.slow
def test_two_pages_of_one_conversation_show_the_same(local: LocalSettings) -> None:
    """What is asked in one tab is answered in both."""

    async def body(page: Page, server: Server) -> None:
        await length(page, 100)
        await say(page, "Hello")
        await idle(page)
        other = await page.context.new_page()
        await other.goto(page.url)
        await expect(messages(other)).to_have_count(2)
        await length(page, LONG)
        await say(page, "Are you there?")
        await writing(other, 3)
        await expect(other.get_by_role("button", name="Stop")).to_be_enabled()
        await page.keyboard.press("Escape")
        await idle(other)
        await idle(page)
        path = await tree(server)
        assert await shown_as(page, 3, path[3]["text"])
        assert await shown_as(other, 3, path[3]["text"])

    with slowed(STEP_S):
        browse(body, local)


@pytest.mark.slow
def test_a_refused_turn_gives_the_text_back(local: LocalSettings) -> None:
    """A message that is too long is not lost: the reason is said and it can be written anew."""

    async def body(page: Page, server: Server) -> None:
        await length(page, SHORT)
        await say(page, "Hello")
        await idle(page)
        text = "long " * 1500
        await say(page, text)
        await expect(page.get_by_role("alert")).to_contain_text("tokens")
        await expect(page.locator("#field")).to_have_value(text.strip())
        await expect(messages(page)).to_have_count(2)
        await say(page, "Shorter")
        await idle(page)
        await expect(messages(page)).to_have_count(4)
        await expect(page.get_by_role("alert")).to_be_empty()

    browse(body, local)


@pytest.mark.slow
def test_what_is_typed_is_computed_before_it_is_sent(local: LocalSettings) -> None:
    """The page says so, and the turn finds it in the cache."""

    async def body(page: Page, server: Server) -> None:
        await length(page, SHORT)
        await say(page, "Hello")
        await idle(page)
        await page.fill("#field", "A longer message that is typed slowly, with some thought.")
        await expect(page.locator("#hint")).to_contain_text("computed already")
        await page.press("#field", "Enter")
        await idle(page)
        found = messages(page).nth(2).locator(".tokens")
        await expect(found).to_contain_text("tokens from memory")
        assert int((await found.inner_text()).split()[0]) > 40

    browse(body, local)
