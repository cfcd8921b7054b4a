"""Conversations as paths, made without a model: what is asked and what is answered, as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.conversation import Conversation
from radixchat.server.message import Message, message_id
from radixchat.server.prompt import PromptBuilder

Asked = tuple[Conversation, tuple[int, ...]]
EMPTY = Conversation("conv_1", ())


@dataclass(frozen=True, slots=True)
class Speaker:
    """Appends to paths with one tokenizer and one template."""

    tokenizer: Tokenizer
    prompts: PromptBuilder

    @classmethod
    def of(cls, model: Path, template: str, render_hash: str = "r") -> Speaker:
        """With the tokenizer of a model's folder."""
        tokenizer = Tokenizer.from_directory(model)
        chat_template = ChatTemplate(
            template, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token
        )
        return cls(tokenizer, PromptBuilder(tokenizer, chat_template, render_hash))

    def system(self, text: str) -> Conversation:
        """A conversation that has only its system message."""
        return Conversation(EMPTY.id, (_node(None, "system", text, (), ""),))

    def ask(self, path: Conversation, text: str) -> Asked:
        """The path with a question at its end, and the prompt to answer it."""
        turn = self.prompts.user_turn(path, text)
        return path.said(turn.message, self.prompts.render_hash), turn.prompt_ids

    def answer(self, path: Conversation, text: str) -> Conversation:
        """The path with an answer at its end, as if the model had sampled it."""
        ids = tuple(self.tokenizer.encode(text))
        node = _node(path.tip, "assistant", text, ids, self.prompts.render_hash)
        return Conversation(path.id, (*path.messages, node))


def _node(
    parent: str | None, role: str, text: str, ids: tuple[int, ...], render_hash: str
) -> Message:
    id_ = message_id(
        parent=parent,
        role=role,
        text=text,
        token_ids=ids,
        absolute=False,
        status="complete",
        render_hash=render_hash,
    )
    return Message(id_, parent, role, text, ids, False, "complete", render_hash, 0.0)
