"""Why something was not done, in words for whoever is in a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.refusal import refusal_of
from radixchat.server.protocol import (
    ConversationLocked,
    ConversationNotFound,
    InvalidRequest,
    RadixChatError,
)
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat

HERE, OTHER = "conv_1", "conv_2"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConversationNotFound(f"there is no conversation '{HERE}'"), "was deleted elsewhere; /new"),
        (ConversationNotFound(f"there is no conversation '{OTHER}'"), OTHER),
        (
            ConversationLocked(f"{HERE} is being answered (resp_1)", 500),
            "another with /new",
        ),
        (ConversationLocked(f"{OTHER} is being answered (resp_1)", 500), OTHER),
        (ConversationLocked(f"{HERE} has moved on", 0), "has moved on"),
        (InvalidRequest(f"{HERE} is odd"), f"{HERE} is odd"),
    ],
)
def test_words(error: RadixChatError, message: str) -> None:
    """A conversation that is gone, or busy, has a way on and no id; the rest stays as it is."""
    told = refusal_of(error, HERE).message
    assert message in told
    assert (HERE in told) == (HERE in message or message == "has moved on")


def test_no_conversation() -> None:
    """What is not found is not the one that one is in where there is none."""
    error = ConversationNotFound(f"there is no conversation '{HERE}'")
    assert refusal_of(error, None).message == str(error)


def test_a_conversation_that_was_deleted_elsewhere(tiny_model: Path, tmp_path: Path) -> None:
    """Whatever is asked for says so; /new and /switch lead on, and it is known to be gone."""

    async def work(scene: ChatScene) -> None:
        await scene.do("/new", "other", "/rename other")
        await scene.do("/new", "one")
        state = scene.dialogue.state
        assert not await state.is_gone()
        await scene.client.delete_conversation(scene.conversation)
        for line in ("two", "/regen", "/edit 1 x", "/undo", "/rename a", "/save", "/export md"):
            assert "was deleted elsewhere; /new" in await scene.refused(line)
        assert await state.is_gone()
        await scene.do("/switch other")
        assert not await state.is_gone()
        await scene.client.delete_conversation(scene.conversation)
        await scene.do("/new", "three")
        assert not await state.is_gone()

    in_chat(tiny_model, tmp_path, work)
