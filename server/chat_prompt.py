"""The exact tokens of a chat that a client sends as messages: `ChatPrompts`.

What was sent and sampled before is found by its messages (`message_index.py`), token for token;
what follows is rendered and encoded, and only that. A template that rewrites history is rendered
whole. Tools go through the template where it has them, and else as text (`tool_prompt.py`). Knows
no engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.message_index import MessageIndex, next_key, prompt_key, start_key
from radixchat.server.tool import ToolUse
from radixchat.server.tool_prompt import PlainChat, plain_chat


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A prompt and where its messages are in the index.

    key: of all of them. conversation: a name that the conversation's later prompts have too; others
    that begin with the same question share it. num_known: leading tokens that were not encoded.
    """

    ids: tuple[int, ...]
    key: bytes
    conversation: str
    num_known: int


class ChatPrompts:
    """Makes the prompts of one model, and remembers what answers them; one principal's."""

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, index: MessageIndex, principal: str
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._index = index
        self._principal = principal

    async def prompt(self, messages: Sequence[ChatMessage], use: ToolUse) -> ChatPrompt:
        """The prompt that asks for an answer to the messages.

        Raises InvalidRequest where there are none, where the template refuses them, and of text
        that is not Unicode.
        """
        if not messages:
            raise InvalidRequest("messages is an empty list; send at least one")
        keys = await asyncio.to_thread(self._keys, messages, use)
        key, name = keys[-1], keys[_first_question(messages)].hex()
        asked = prompt_key(key)
        if (known := self._index.find(asked)) is not None:
            return ChatPrompt(known, key, name, len(known))
        for answer in self._answers(messages):
            if (known := self._index.find(keys[answer])) is None:
                continue
            try:
                added = await asyncio.to_thread(self._after, messages, answer, use)
            except InvalidRequest:  # without that message's own text the chat makes no sense to it
                break
            ids = known + added
            self._index.add(asked, ids, keys[answer])
            return ChatPrompt(ids, key, name, len(known))
        ids = await asyncio.to_thread(self._whole, messages, use)
        self._index.add(asked, ids)
        return ChatPrompt(ids, key, name, 0)

    async def without_question(
        self, messages: Sequence[ChatMessage], use: ToolUse
    ) -> tuple[int, ...]:
        """The tokens of the messages alone, which ask for no answer. Raises as prompt does."""
        return await asyncio.to_thread(self._whole, messages, use, asks=False)

    def remember(self, prompt: ChatPrompt, answer: ChatMessage, answer_ids: Sequence[int]) -> None:
        """Know the answer's tokens when the client sends it back.

        With the white space around it or without: many clients strip it.
        """
        text, ids, asked = answer.content, (*prompt.ids, *answer_ids), prompt_key(prompt.key)
        for sent in dict.fromkeys((text, text.rstrip(), text.strip())):
            said = ChatMessage("assistant", sent, answer.tool_calls)
            self._index.add(next_key(prompt.key, said), ids, asked)

    def _keys(self, messages: Sequence[ChatMessage], use: ToolUse) -> list[bytes]:
        """Of each message, the key of those up to it."""
        start = start_key([self._principal, use.definitions])
        return list(accumulate(messages, next_key, initial=start))[1:]

    def _answers(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Where a known beginning may end, the latest first."""
        if not self._template.lint.appendable:
            return []
        places = range(len(messages) - 2, -1, -1)
        return [place for place in places if messages[place].role == "assistant"]

    def _after(self, messages: Sequence[ChatMessage], answer: int, use: ToolUse) -> tuple[int, ...]:
        """The tokens of what follows message number `answer`."""
        if self._template.writes_tools:
            pieces = self._template.render_after(messages, answer, use.definitions)
        else:
            chat = self._plain(messages, use)
            pieces = self._template.render_after(chat.messages, chat.places[answer])
        return tuple(self._tokenizer.encode_prompt(pieces, at_start=False))

    def _whole(
        self, messages: Sequence[ChatMessage], use: ToolUse, *, asks: bool = True
    ) -> tuple[int, ...]:
        """asks: with what asks for an answer at its end."""
        tools = use.definitions if self._template.writes_tools else ()
        chat = messages if self._template.writes_tools else self._plain(messages, use).messages
        pieces = self._template.render(chat, add_generation_prompt=asks, tools=tools)
        return tuple(self._tokenizer.encode_prompt(pieces))

    def _plain(self, messages: Sequence[ChatMessage], use: ToolUse) -> PlainChat:
        return plain_chat(messages, use.definitions, takes_system=self._template.takes_system)


def _first_question(messages: Sequence[ChatMessage]) -> int:
    roles = [message.role for message in messages]
    return roles.index("user") if "user" in roles else len(roles) - 1
