"""The command line that goes on with a conversation."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from radixchat.chat_cli.paths import database_file
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.way_back import way_back


@pytest.mark.parametrize(
    ("database", "url", "words"),
    [
        (None, None, []),
        (Path("/tmp/it's here.db"), None, ["--db", "/tmp/it's here.db"]),
        (Path("/tmp/x.db"), "ws://host:8000", ["--url", "ws://host:8000"]),
    ],
)
def test_way_back(database: Path | None, url: str | None, words: list[str]) -> None:
    """A shell reads it as it is meant."""
    settings = ChatSettings(model="m", database=database or database_file(), url=url)
    command = way_back("conv_1", settings)
    assert shlex.split(command) == ["radixchat", "chat", "--session", "conv_1", *words]
