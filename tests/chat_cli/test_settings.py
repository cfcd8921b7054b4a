"""Settings become what an answer is asked for."""

from __future__ import annotations

from pathlib import Path

from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import ResponseOptions


def test_response_options() -> None:
    """Every sampling setting is handed on."""
    settings = ChatSettings(
        model="m",
        database=Path("x"),
        temperature=0.5,
        top_p=0.6,
        top_k=7,
        min_p=0.08,
        seed=9,
        max_tokens=10,
    )
    assert settings.response_options == ResponseOptions(0.5, 0.6, 7, 0.08, 9, 10)
