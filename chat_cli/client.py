"""The one interface over which the terminal client talks to conversations.

Knows the protocol's values, no engine: the service in this process is imported when it is opened,
because torch takes more than a second to import, and what speaks to a server when there is one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from radixchat.chat_cli.conversation_source import ConversationSource
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import (
    CacheReport,
    CacheTree,
    ConversationView,
    MessageView,
    ResponseEvent,
    ResponseOptions,
    TreeMessage,
)


class ChatClient(ConversationSource, Protocol):
    """Conversations, wherever they are answered.

    The generators yield ResponseCreated, OutputTextDelta*, then exactly one ResponseDone; closing
    one early cancels its response. What is refused before acceptance is raised from the first
    step, as a RadixChatError.
    """

    @property
    def model_name(self) -> str:
        """The model that answers."""

    @property
    def n_ctx(self) -> int:
        """Tokens that a conversation may have; 0 while there is no model to tell it."""

    async def create_conversation(self, system: str | None = None) -> str:
        """A new, empty conversation's id."""

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        system: str | None = None,
        tip: str | None = None,
    ) -> ConversationView:
        """Change what is given.

        tip: the message, or response, to go on from: another branch. system: the system message;
        what was said is the same, and is computed again after it. "": none.
        """

    async def delete_conversation(self, conversation: str) -> None:
        """With what only it had in the cache. A turn that runs in it is cancelled first."""

    async def tree(self, conversation: str, *, warmth: bool = False) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first.

        warmth: with how much of each is cached.
        """

    async def inspect(
        self,
        *,
        conversation: str | None = None,
        text: str = "",
        turn: int | None = None,
        texts: bool = False,
    ) -> CacheReport:
        """What the next turn, `text`, would find in the cache; changes nothing.

        turn: as if the text (without one, the turn's own) took the place of that user turn, from 1;
        then no segment tells its message, unless there are texts. texts: with each segment's text.
        """

    async def cache_tree(self, conversation: str | None = None) -> CacheTree:
        """The cache's tree, of all of one's conversations; the given one's path is marked."""

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Add the user's message and answer it."""

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the conversation as if its user turn `turn` (from 1) had been `text`."""

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user's message again."""

    def sibling(self, response: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Another answer beside a response's; no conversation moves to it."""

    def extend(self, conversation: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Go on with the last answer, which was cut short: a longer one that begins with it.

        Its first delta is what there was. Raises InvalidRequest where there is no such answer.
        """

    async def undo(self, conversation: str) -> MessageView:
        """Remove the last turn; its user's message."""

    async def open_conversation(self, conversation: str) -> None:
        """Say that somebody is about to go on with it: what is kept of it is got ready.

        Fails never; it can be gone on with all the same.
        """

    async def close_conversation(self, conversation: str) -> None:
        """Say that nobody is about to go on with it; it can be continued all the same."""

    async def cancel(self, response: str) -> None:
        """End a response: its iterator ends incomplete, "interrupted"."""

    async def stats(self) -> dict[str, int | float | str]:
        """Figures of the engine and its cache, by name."""


@runtime_checkable
class Waits(Protocol):
    """A client that waits for a server that is lost, or for a model that is being loaded."""

    @property
    def is_lost(self) -> bool:
        """Whether its server is not there now, as far as is known."""

    def stop_waiting(self) -> None:
        """Whoever waits now gets a RadixChatError, or of an answer its end as far as it came."""


@runtime_checkable
class ChangesModel(Protocol):
    """A client whose model can be another one; a server has one only."""

    async def change_model(self, name: str) -> None:
        """Have another installed model answer; conversations go on with it.

        At a terminal it is loaded behind the prompt, and if that fails it is told there. Raises
        ModelLoadError or ConfigError, and the one before answers as ever; ServerDraining where the
        model that is being loaded is not waited for any longer.
        """


def prepare(settings: ChatSettings, report: Callable[[str], None]) -> None:
    """What only a machine's first run has to do, told line by line.

    Raises ConfigError; ModelLoadError where what computes models cannot be imported.
    """
    from radixchat.chat_cli import model_loading

    model_loading.prepare(settings, report)


def open_client(
    settings: ChatSettings, tell: Callable[[str], None] = lambda _: None, patience_s: float = 0.0
) -> AbstractAsyncContextManager[ChatClient]:
    """The server of the settings' URL, or the service in this process.

    tell: is told when the server is lost, and when it is back. patience_s: so long a server is
    waited for that is loading its model. Entering raises ServerUnreachable, KeyRefused or
    ServerDraining; or ModelLoadError, ConfigError or StoreError.
    """
    if settings.url is not None:
        from radixchat.chat_cli.answer_request import AnswerRequest
        from radixchat.chat_cli.async_client import AsyncChatClient

        request = AnswerRequest(token_ids=settings.ids)
        return AsyncChatClient(
            settings.url, key=settings.key, request=request, tell=tell, patience_s=patience_s
        )

    from radixchat.chat_cli.background_client import open_loaded

    return open_loaded(settings, tell)
