"""From a conversation to the exact tokens of a request.

A conversation is tokens: the ids along its path, joined, are the prompt, and only the new turn is
encoded. Three cases cannot go on from the stored ids and are rendered whole instead: ids that
another model, tokenizer or template made, templates that rewrite history (they strip
reasoning, say), and conversations that became too long (`truncation.py` says what is left out).
The user message of such a turn then holds the whole prompt (`absolute`), and the conversation's
ids start there. A turn that is appended goes without what they leave out; `full_turn` has it again.
Knows no store and no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.conversation import Conversation, chat_messages
from radixchat.server.message import NOTHING, LeftOut, Message, NewMessage, check_text
from radixchat.server.prompt_layout import PromptLayout


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A new user message and the whole prompt that it completes."""

    message: NewMessage
    prompt_ids: tuple[int, ...]


class PromptBuilder:
    """Renders and encodes turns for one model by its `template`; `render_hash` says which it is."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, render_hash: str) -> None:
        self._tokenizer = tokenizer
        self.template = template
        self.render_hash = render_hash

    def user_turn(self, history: Conversation, text: str) -> UserTurn:
        """The turn that appends `text`. Raises InvalidRequest for text that cannot be sent."""
        if not check_text("the message", text).strip():
            raise InvalidRequest(f"the message is {text!r}; send at least one visible character")
        stored = self.stored_ids(history)
        if stored is None or not self.template.lint.appendable:
            return self._rendered_turn(history, text, recount=stored is None)
        pieces = self.template.render_turn(_answered(history.shown), text)
        added = tuple(self._tokenizer.encode_prompt(pieces, at_start=False))
        return UserTurn(NewMessage(text, added, absolute=False), stored + added)

    def full_turn(self, history: Conversation, text: str) -> UserTurn:
        """As user_turn, and nothing of the history is left out."""
        if history.gap == NOTHING:
            return self.user_turn(history, text)
        return whole_turn(text, self.render_without(history, text, 0), NOTHING)

    def render_without(self, history: Conversation, text: str, count: int) -> tuple[int, ...]:
        """The prompt in which `text` follows all but the `count` oldest messages of the history.

        The system message is none of these.
        """
        return self._render([*_answered(history.without(count)), ChatMessage("user", text)])

    def prompt_ids(self, question: Conversation) -> tuple[int, ...]:
        """The prompt of a path that ends with a user message, to answer it (again)."""
        stored = self.stored_ids(question)
        return stored if stored is not None else self._render(chat_messages(question.shown))

    def render_path(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """The tokens of what was said, where nothing is to be answered yet."""
        pieces = self.template.render(messages, add_generation_prompt=False)
        return tuple(self._tokenizer.encode_prompt(pieces))

    def layout(self, question: Conversation, prompt_ids: Sequence[int]) -> PromptLayout:
        """Where the path's messages lie in `prompt_ids`, the prompt that answers its end."""
        num_rendered = len(question.shown)
        if self.stored_ids(question) is not None:
            num_rendered -= len(question.since_absolute) - 1
        return PromptLayout(self._tokenizer, self.template, question, prompt_ids, num_rendered)

    def stored_ids(self, conversation: Conversation) -> tuple[int, ...] | None:
        """The conversation's own ids; None if it has none, or another model made some of them."""
        messages = conversation.since_absolute
        ours = bool(messages) and all(m.render_hash == self.render_hash for m in messages)
        return conversation.token_ids if ours else None

    def _rendered_turn(self, history: Conversation, text: str, *, recount: bool) -> UserTurn:
        """The turn whose prompt is rendered anew, without what the history's ids leave out.

        recount: another model counted the tokens of that.
        """
        left_out = history.gap
        prompt = self.render_without(history, text, left_out.messages)
        if recount and left_out != NOTHING:
            more = len(self.render_without(history, text, 0)) - len(prompt)
            left_out = LeftOut(left_out.messages, more)
        return whole_turn(text, prompt, left_out)

    def _render(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        pieces = self.template.render(messages, add_generation_prompt=True)
        return tuple(self._tokenizer.encode_prompt(pieces))


def whole_turn(text: str, prompt_ids: tuple[int, ...], left_out: LeftOut) -> UserTurn:
    """The turn whose user message holds the whole prompt."""
    return UserTurn(NewMessage(text, prompt_ids, absolute=True, left_out=left_out), prompt_ids)


def _answered(messages: Sequence[Message]) -> list[ChatMessage]:
    """The messages as a template wants them before the user's next one."""
    chat = chat_messages(messages)
    if chat and chat[-1].role == "user":
        # Stopped before its first token: an empty answer keeps the prompt a prefix.
        chat.append(ChatMessage("assistant", ""))
    return chat
