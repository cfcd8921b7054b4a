"""A real browser for the tests of the page: headless Chromium, and what went wrong in it.

Knows no page but this: nothing may be logged as an error, thrown, or asked of another host.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import Page, async_playwright, expect  # noqa: E402 - it may be missing

from radixchat.server.local import LocalSettings  # noqa: E402
from radixchat.server.serve_settings import ServeSettings  # noqa: E402
from radixchat.tests.server.sockets import Server, open_server  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000.0
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """The browser's program; the test is skipped where there is none."""
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    pytest.skip("no Chromium here: on Debian `apt install chromium`")


@asynccontextmanager
async def open_page(
    url: str, *, allowed: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[Page]:
    """The page at `url` in a browser of its own; at the end nothing may have gone wrong.

    allowed: parts of console messages that are no fault, such as of a server that is down.
    options: of the browser's context.
    """
    faults: list[str] = []
    host = urlsplit(url).netloc

    def heard(kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in allowed):
            faults.append(f"{kind}: {text}")

    def asked(address: str) -> None:
        if urlsplit(address).netloc != host and not address.startswith(("data:", "blob:")):
            faults.append(f"request to {address}")

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium(), timeout=PATIENCE_MS * 2)
        context = await browser.new_context(**options)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: heard(message.type, message.text))
        page.on("pageerror", lambda error: faults.append(f"thrown: {error}"))
        page.on("request", lambda request: asked(request.url))
        page.on("websocket", lambda socket: asked(socket.url))
        await page.goto(url)
        try:
            yield page
        finally:
            await browser.close()
    assert not faults, faults


def site_of(server: Server) -> str:
    """The address of the page."""
    return server.url.replace("ws", "http", 1).removesuffix("/v1/responses") + "/"


def browse(
    body: Callable[[Page, Server], Awaitable[None]],
    local: LocalSettings,
    settings: ServeSettings | None = None,
    **options: Any,
) -> None:
    """Run `body` with a server and its page in a browser."""

    async def main() -> None:
        async with (
            open_server(local, settings) as server,
            open_page(site_of(server), **options) as page,
        ):
            await asyncio.wait_for(body(page, server), 300)

    asyncio.run(main())


async def say(page: Page, text: str) -> None:
    """Write a message and send it with Enter."""
    await page.fill("#field", text)
    await page.press("#field", "Enter")


async def idle(page: Page) -> None:
    """Until no answer runs here and what ended is shown as the server has it."""
    await expect(page.locator(".send.stop")).to_have_count(0)
    await expect(page.locator(".message.busy")).to_have_count(0)
