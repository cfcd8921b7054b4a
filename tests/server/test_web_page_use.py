"""The page for everybody: small screens, the keyboard, screen readers, dark and light, a key."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from radixchat.server.app import app_of
from radixchat.server.auth import Authenticator, Principal
from radixchat.server.edge import Edge
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.browser import browse, idle, open_page, say
from radixchat.tests.server.sockets import Server
from radixchat.tests.tiny_model import endless_model_directory

PHONE = {"width": 360, "height": 640}
KEY = "rc_a_key_of_the_test"
ANYTHING = re.compile(r"\S")
# The texts whose colour is too near to the nearest background below them: [text, ratio].
CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (colour, below) => {
        canvas.fillStyle = below;
        canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
    const behind = (node) => {
        if (node === null) return "canvas";
        const { backgroundColor } = getComputedStyle(node);
        return css(rgba(backgroundColor, behind(node.parentElement)));
    };
    const light = ([r, g, b]) => {
        const part = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
    };
    const poor = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode.parentElement;
        const text = texts.currentNode.data.trim();
        if (text === "" || !node.checkVisibility({ visibilityProperty: true })) continue;
        if (node.closest("button:disabled, .unseen")) continue;
        const back = behind(node);
        const one = light(rgba(getComputedStyle(node).color, back));
        const other = light(rgba(back, back));
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (ratio < 4.5) poor.push([text.slice(0, 40), ratio]);
    }
    return poor;
}"""
# One that is not there is asked for, and another one before the server has said so.
OVERTAKEN = """(next) => {
    location.hash = "#conv_nobody";
    setTimeout(() => (location.hash = next));
}"""
SHORT = "localStorage.setItem('radixchat.preferences', '{\"max_output_tokens\": 24}')"


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return endless_model_directory(tmp_path_factory.mktemp("endless"), 2048)


@pytest.fixture
def local(endless: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(endless), database=tmp_path / "chat.db")


async def short(page: Page) -> None:
    """From now on answers have 24 tokens."""
    await page.evaluate(SHORT)
    await page.reload()


def test_a_phone_shows_everything_within_its_width(local: LocalSettings) -> None:
    """Nothing is wider than the screen; the list and the cache are drawers that Esc closes."""

    async def body(page: Page, server: Server) -> None:
        await short(page)
        await say(page, f"{'a' * 500} {'```' * 3} https://example.org/{'b' * 300}")
        await idle(page)
        width = "document.documentElement.scrollWidth"
        wide = """[...document.querySelectorAll('main *')].filter((node) =>
            node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('pre, .table')
            && getComputedStyle(node).visibility === 'visible').map((node) => node.className)"""
        assert await page.evaluate(width) == 360
        assert await page.evaluate(wide) == []
        for name, panel in (("Conversations", "navigation"), ("Cache", "complementary")):
            opener = page.locator("main > header").get_by_role("button", name=name, exact=True)
            landmark = page.get_by_role(panel)  # type: ignore[arg-type] # one of its literals
            await expect(landmark).to_be_hidden()
            await expect(opener).to_have_attribute("aria-expanded", "false")
            await opener.click()
            await expect(landmark).to_be_visible()
            assert await landmark.evaluate("(node) => node.contains(document.activeElement)")
            assert await page.evaluate(width) == 360
            await page.keyboard.press("Escape")
            await expect(landmark).to_be_hidden()
            await expect(opener).to_be_focused()

    browse(body, local, viewport=PHONE, has_touch=True)


@pytest.mark.slow
def test_the_keyboard_is_enough(local: LocalSettings) -> None:
    """Enter, Shift-Enter, Up, Esc and Ctrl-K; arrows walk the list; the focus can be seen."""

    async def body(page: Page, server: Server) -> None:
        await short(page)
        for text in ("First", "Second", "Third"):
            await page.get_by_role("button", name="New conversation").press("Enter")
            await expect(page.locator("#field")).to_be_focused()
            await page.keyboard.type(text)
            await page.keyboard.press("Shift+Enter")
            await page.keyboard.type("line")
            await page.keyboard.press("Enter")
            await idle(page)
        links = page.locator("#list a")
        await expect(links).to_have_count(3)
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(links.nth(0)).to_be_focused()
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        await page.keyboard.press("End")
        await expect(links.nth(2)).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Second line")
        await expect(page.locator(".message.user .body")).to_have_text("Second\nline")
        await expect(page.locator("#field")).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await expect(page.get_by_label("Edit your message")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_label("Edit your message")).to_have_count(0)
        await page.keyboard.press("Control+k")
        await page.keyboard.type("third")
        await expect(page.locator("#list mark")).to_have_text("Third")
        await page.keyboard.press("ArrowDown")
        await expect(links).to_have_count(1)
        await expect(links.nth(0)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Third line")

    browse(body, local)


@pytest.mark.slow
def test_the_address_says_what_is_shown(local: LocalSettings) -> None:
    """Back, Forward, a typed address, what a search finds; the last that is asked for counts."""

    async def body(page: Page, server: Server) -> None:
        await short(page)
        heading, field = page.get_by_role("heading", level=1), page.locator("#field")
        links, question = page.locator("#list a"), page.locator(".message.user")
        address = {"New conversation": ""}
        for text in ("Apple", "Pear"):
            await page.get_by_role("button", name="New conversation").press("Enter")
            await expect(heading).to_have_text("New conversation")
            await say(page, text)
            await idle(page)
            await expect(heading).to_have_text(text)
            address[text] = await page.evaluate("location.hash")
        await links.filter(has_text="Apple").click()
        await expect(heading).to_have_text("Apple")
        await page.go_back()
        await expect(heading).to_have_text("Pear")
        await expect(field).to_be_focused()
        await page.go_forward()
        await expect(heading).to_have_text("Apple")
        for text, fragment in address.items():
            await page.evaluate("fragment => (location.hash = fragment)", fragment)
            await expect(heading).to_have_text(text)
        await page.fill("#search", "apple")
        await expect(page.locator("#list mark")).to_have_text("Apple")
        for _ in range(2):  # the second time the address does not change
            await links.click()
            await expect(heading).to_have_text("Apple")
            await expect(question).to_be_focused()
            await field.focus()
        await page.go_back()
        await expect(heading).to_have_text("Pear")
        await page.go_forward()
        await expect(question).to_be_focused()
        await page.evaluate(OVERTAKEN, address["Pear"])
        await expect(heading).to_have_text("Pear")
        await expect(field).to_be_focused()
        await say(page, "Plum")  # by now the first question has its answer, too
        await idle(page)
        await expect(heading).to_have_text("Pear")
        assert await page.evaluate("location.hash") == address["Pear"]

    browse(body, local)


@pytest.mark.slow
def test_a_screen_reader_is_told_of_answers_not_of_tokens(local: LocalSettings) -> None:
    """One message at the start and one at the end; every control has a name, every part a role."""

    async def body(page: Page, server: Server) -> None:
        await short(page)
        await page.evaluate(
            """() => {
                window.said = [];
                const region = document.getElementById("announcer");
                new MutationObserver(() => said.push(region.textContent))
                    .observe(region, { childList: true, characterData: true, subtree: true });
            }"""
        )
        await say(page, "Hello")
        await idle(page)
        said = await page.evaluate("said")
        assert said[0] == "Answering."
        assert len(said) == 2
        assert said[1].startswith(("Answer:", "Stopped:"))
        live = (
            "[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log]')]"
        )
        assert not await page.evaluate(f"{live}.some((node) => node.querySelector('.message'))")
        for control in (
            await page.locator("button, input, textarea, a").locator("visible=true").all()
        ):
            await expect(control).to_have_accessible_name(ANYTHING)
        for role in ("navigation", "main", "complementary"):
            assert await page.get_by_role(role).count() == 1
        picture = page.get_by_role("img", name="This conversation is lit")
        await expect(picture).to_be_visible()
        await page.get_by_text("The tree in words").press("Enter")
        words = page.locator(".words li")
        await expect(words.first).to_contain_text("in memory")
        await expect(words.first).to_contain_text("of this conversation")

    browse(body, local, viewport={"width": 1280, "height": 800})


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_the_dark_and_in_the_light(local: LocalSettings, scheme: str) -> None:
    """Every text has a contrast of 4.5 to what is behind it, as WCAG asks."""

    async def body(page: Page, server: Server) -> None:
        await short(page)
        await say(page, "Hello")
        await idle(page)
        assert await page.evaluate(CONTRAST) == []

    browse(body, local, color_scheme=scheme, viewport={"width": 1280, "height": 800})


@pytest.mark.slow
def test_a_key_is_asked_for_where_one_is_needed(local: LocalSettings) -> None:
    """A wrong one is asked for again; the right one is kept for the tab, and in no address."""

    async def main() -> None:
        async with locked_site(local) as url, open_page(url, allowed=("401", "WebSocket")) as page:
            dialog = page.get_by_role("dialog", name="This server asks for a key")
            for key in ("wrong", KEY):
                await expect(dialog).to_be_visible()
                await dialog.get_by_label("Key", exact=True).fill(key)
                await dialog.get_by_role("button", name="Go on").click()
            await expect(page.locator("#connection")).to_have_class("open")
            await short(page)
            await say(page, "Hello")
            await idle(page)
            assert KEY not in page.url
            assert await page.evaluate(
                "[localStorage.getItem('radixchat.key'), document.cookie]"
            ) == [
                None,
                "",
            ]
            await page.get_by_role("button", name="Settings").click()
            await page.get_by_role("button", name="Forget the key").click()
            await expect(dialog).to_be_visible()

    asyncio.run(asyncio.wait_for(main(), 300))


@asynccontextmanager
async def locked_site(local: LocalSettings) -> AsyncIterator[str]:
    """A server that lets nobody in without the key."""

    async def find(key: str) -> Principal | None:
        return Principal("somebody") if key == KEY else None

    async def any_key() -> bool:
        return True

    settings = ServeSettings(port=0)
    edge, sockets = Edge(settings), bind(settings)
    listener = Listener(app_of(edge), settings, sockets)
    async with open_host(replace(local, threads=1)) as host:
        edge.open(host, Authenticator(find, any_key, is_open=False))
        await listener.start()
        try:
            yield url_of(settings, sockets) + "/"
        finally:
            edge.departure.drain(0)
            edge.departure.close()
            await host.drain(0)
            await listener.stop()
