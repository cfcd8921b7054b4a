"""The service in this process, as the client opens it."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path

import pytest

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ModelLoadError
from radixchat.tests.chat_cli.conftest import CONTEXT
from radixchat.tests.chat_cli.scripted import tiny_settings


def test_open(tiny_model: Path, tmp_path: Path) -> None:
    """It names its model and its context, and finds a conversation by the start of its id."""

    async def use() -> tuple[str, int, str, str]:
        async with open_client(tiny_settings(tiny_model, tmp_path / "s.db")) as client:
            conversation = await client.create_conversation("be brief")
            found = await client.resolve_conversation(conversation[:-2])
            return client.model_name, client.n_ctx, conversation, found

    name, n_ctx, conversation, found = asyncio.run(use())
    assert (name, n_ctx) == (tiny_model.name, CONTEXT)
    assert found == conversation


def test_every_setting_of_the_service_is_passed_on() -> None:
    """Each has its place in a chat's settings, under the same name."""
    service, chat = (
        {field.name for field in fields(each)} for each in (LocalSettings, ChatSettings)
    )
    assert service < chat


def test_settings_reach_the_engine(tiny_model: Path, tmp_path: Path) -> None:
    """The pool's size and the page's are the settings'."""

    async def pages(page_size: int) -> int | float | str:
        settings = tiny_settings(
            tiny_model, tmp_path / "s.db", page_size=page_size, pool_tokens=640
        )
        async with open_client(settings) as client:
            return (await client.stats())["pages"]

    assert asyncio.run(pages(8)) == 80
    assert asyncio.run(pages(32)) == 20


def test_no_model(tmp_path: Path) -> None:
    """A model that is not there is a ModelLoadError."""

    async def use() -> None:
        async with open_client(tiny_settings(tmp_path / "none", tmp_path / "s.db")):
            pass

    with pytest.raises(ModelLoadError):
        asyncio.run(use())
