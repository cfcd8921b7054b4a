"""A checkpoint's chat template: messages to pieces of prompt.

Owns the running of the template, so that what is rendered is what the model was trained on. Knows
no token ids: `Tokenizer.encode_prompt` takes the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from radixchat.engine.content_mask import MARKER, ContentMask, uses_mask_characters
from radixchat.engine.errors import InvalidRequest, ModelLoadError
from radixchat.engine.prompt import ChatMessage, Piece, joined
from radixchat.engine.template_lint import TemplateLint, lint_template
from radixchat.engine.template_sandbox import compile_template
from radixchat.engine.tokenizer import Tokenizer

ROLES = ("system", "developer", "user", "assistant", "tool")

# What templates look for in a message and act upon. Everything else in a message is hidden from
# the template; these stay visible in the roles where they are a feature. In a user's message
# they are text.
_KEEP: Mapping[str, re.Pattern[str]] = {
    "assistant": re.compile(r"(</?think>)"),  # reasoning, cut out of old answers
    "system": re.compile(r"(/no_think|/nothink|/think)"),  # SmolLM3's switches
}

# Everything that a filter might change: case, quotes, markup, template syntax, whitespace.
_PROBE = ' Ünï "quoted"\\n <b>&amp;</b> {{ x }} {% y %} 猫😀\n\n  two\t'


class ChatTemplate:
    """One chat template.

    Message text cannot reach the template, only its shape can (length, whitespace, and the
    marks in `_KEEP`); so nothing that somebody types changes a prompt's structure. For ordinary
    text the pieces, joined, are what `apply_chat_template` renders.
    """

    def __init__(self, source: str, *, bos_token: str | None, eos_token: str | None) -> None:
        """Compile and try it. Raises ModelLoadError when it cannot serve a plain chat."""
        self.source = source
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._tokens = {name: text for name, text in tokens.items() if text is not None}
        if uses_mask_characters(source):
            raise ModelLoadError("the chat template has private-use characters of its own")
        try:
            self._template = compile_template(source)
        except Exception as error:  # syntax errors, and whatever constant folding raises
            raise ModelLoadError(f"the chat template does not compile: {error}") from error
        self._check()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> ChatTemplate:
        """The template that the checkpoint came with. Raises ModelLoadError where it has none."""
        if tokenizer.chat_template is None:
            raise ModelLoadError(
                "the checkpoint has no chat template: it is a base model, or was converted "
                "without it; take one that was tuned for chat"
            )
        return cls(
            tokenizer.chat_template,
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
        )

    def render(
        self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool
    ) -> list[Piece]:
        """The whole prompt. Raises InvalidRequest when the template refuses the messages."""
        mask = ContentMask()
        masked = [_masked(message, mask) for message in messages]
        return mask.pieces(self._run(masked, add_generation_prompt=add_generation_prompt))

    def render_through(self, messages: Sequence[ChatMessage], last: int) -> list[Piece] | None:
        """The prompt's beginning, up to the end of what it shows of message number `last`.

        None where it does not show that end exactly once. Raises InvalidRequest as render does.
        """
        mask = ContentMask()
        masked = [_masked(message, mask) for message in messages]
        masked[last]["content"] += MARKER
        before, *after = self._run(masked, add_generation_prompt=True).split(MARKER)
        return mask.pieces(before) if len(after) == 1 else None

    def render_turn(self, history: Sequence[ChatMessage], text: str) -> list[Piece]:
        """What follows the last answer: the end of its turn, the user's `text`, the next prompt.

        `history` ends with that answer; only its roles and system message matter, for what is
        rendered of it is thrown away. The first piece begins with the end-of-turn text, which the
        answer's ids have already where the model has sampled it. Raises InvalidRequest when the
        template refuses the conversation.
        """
        assert history, "a turn follows an answer"
        assert history[-1].role == "assistant", history[-1].role
        mask = ContentMask()
        masked = [_masked(message, mask) for message in history[:-1]]
        masked.append({"role": "assistant", "content": MARKER})
        masked.append(_masked(ChatMessage("user", text), mask))
        _, *after = self._run(masked, add_generation_prompt=True).split(MARKER)
        if len(after) != 1:
            raise InvalidRequest(
                f"the chat template shows the last answer {len(after)} times once a question "
                "follows it, so the conversation cannot be continued token by token"
            )
        return mask.pieces(after[0])

    @cached_property
    def lint(self) -> TemplateLint:
        """What the template does to the tokens of earlier turns; found by rendering a few."""
        return lint_template(self)

    def render_plainly(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        """As transformers renders it: message text reaches the template. Not for prompts."""
        return self._run(messages, add_generation_prompt=add_generation_prompt, tools=tools)

    def _run(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                tools=tools,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
            )
        except Exception as error:  # a template is foreign code: it may raise anything
            raise InvalidRequest(f"the chat template refuses the conversation: {error}") from error

    def _check(self) -> None:
        """Two turns of a plain chat, with what filters change in the messages."""
        chat = [
            ChatMessage("user", _PROBE),
            ChatMessage("assistant", _PROBE),
            ChatMessage("user", _PROBE),
        ]
        plain = [{"role": message.role, "content": message.content} for message in chat]
        try:
            pieces = self.render(chat, add_generation_prompt=True)
            expected = self.render_plainly(plain, add_generation_prompt=True)
            self.render_turn(chat[:2], _PROBE)
        except InvalidRequest as error:
            raise ModelLoadError(f"a plain chat of two turns fails: {error}") from error
        if joined(pieces) != expected:
            raise ModelLoadError(
                "the chat template rewrites message text, so that it cannot be told apart from "
                "the template's own"
            )


def _masked(message: ChatMessage, mask: ContentMask) -> dict[str, str]:
    if message.role not in ROLES:
        raise InvalidRequest(f"role is {message.role!r}; allowed: {', '.join(ROLES)}")
    return {
        "role": message.role,
        "content": mask.hide(message.content, _KEEP.get(message.role)),
    }
