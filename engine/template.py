"""A checkpoint's chat template: messages to pieces of prompt.

Owns the running of the template, so that what is rendered is what the model was trained on. Knows
no token ids: `Tokenizer.encode_prompt` takes the pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from radixchat.engine.content_mask import MARKER, ContentMask, uses_mask_characters
from radixchat.engine.errors import InvalidRequest, ModelLoadError
from radixchat.engine.masked_chat import masked_message, masked_tools, plain_message
from radixchat.engine.prompt import ChatMessage, Piece, ToolCall, joined
from radixchat.engine.template_lint import TemplateLint, lint_template
from radixchat.engine.template_sandbox import compile_template
from radixchat.engine.tokenizer import Tokenizer

# Everything that a filter might change: case, quotes, markup, template syntax, whitespace.
_PROBE = ' Ünï "quoted"\\n <b>&amp;</b> {{ x }} {% y %} 猫😀\n\n  two\t'
_PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe_name",
        "description": _PROBE,
        "parameters": {
            "type": "object",
            "properties": {"zeta": {"type": "string", "description": _PROBE}, _PROBE: {}},
            "required": ["zeta"],
        },
    },
}
_PROBE_CALL = ToolCall("call_0001", "probe_name", json.dumps({"zeta": _PROBE, _PROBE: [1, None]}))
# A call as Hermes models, and those that came after them, write it.
_JSON_CALL = re.compile(
    r"<tool_call>\s*"
    + re.escape('{"name": "probe_name", "arguments": {"zeta": ')
    + r".*\}\s*</tool_call>",
    re.DOTALL,
)


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
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[Piece]:
        """The whole prompt. Raises InvalidRequest when the template refuses the messages.

        tools: function definitions, as the Chat Completions API has them; for a template that
        `writes_tools`.
        """
        mask = ContentMask()
        masked = [masked_message(message, mask) for message in messages]
        hidden = masked_tools(tools, mask)
        return mask.pieces(
            self._run(masked, add_generation_prompt=add_generation_prompt, tools=hidden or None)
        )

    def render_through(self, messages: Sequence[ChatMessage], last: int) -> list[Piece] | None:
        """The prompt's beginning, up to the end of what it shows of message number `last`.

        None where it does not show that end exactly once. Raises InvalidRequest as render does.
        """
        mask = ContentMask()
        masked = [masked_message(message, mask) for message in messages]
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
        return self.render_after([*history, ChatMessage("user", text)], len(history) - 1)

    def render_after(
        self,
        messages: Sequence[ChatMessage],
        answer: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[Piece]:
        """What follows message number `answer`: the end of its turn, the others, the next prompt.

        It is an assistant's, and its text is not looked at. As of render_turn otherwise.
        """
        assert messages[answer].role == "assistant", messages[answer].role
        mask = ContentMask()
        masked = [masked_message(message, mask) for message in messages]
        masked[answer] = {"role": "assistant", "content": MARKER}
        hidden = masked_tools(tools, mask)
        rendered = self._run(masked, add_generation_prompt=True, tools=hidden or None)
        _, *after = rendered.split(MARKER)
        if len(after) != 1:
            raise InvalidRequest(
                f"the chat template shows the last answer {len(after)} times once a question "
                "follows it, so the conversation cannot be continued token by token"
            )
        return mask.pieces(after[0])

    @cached_property
    def writes_tools(self) -> bool:
        """Whether it tells a model of tools, and has calls written as JSON in `<tool_call>`.

        Where it has none, or has them written otherwise, a prompt has to say it in plain text.
        """
        chat = [
            ChatMessage("user", _PROBE),
            ChatMessage("assistant", "", tool_calls=(_PROBE_CALL,)),
            ChatMessage("tool", _PROBE, tool_call_id=_PROBE_CALL.id),
        ]
        plain = [plain_message(message) for message in chat]
        try:
            pieces = self.render(chat, add_generation_prompt=True, tools=[_PROBE_TOOL])
            expected = self.render_plainly(plain, add_generation_prompt=True, tools=[_PROBE_TOOL])
        except InvalidRequest:
            return False
        is_told = expected.count("probe_name") > 1  # beside the call
        return is_told and joined(pieces) == expected and bool(_JSON_CALL.search(expected))

    @cached_property
    def takes_system(self) -> bool:
        """Whether a conversation may begin with a system message."""
        chat = [ChatMessage("system", _PROBE), ChatMessage("user", "Hello.")]
        try:
            return _PROBE.strip() in joined(self.render(chat, add_generation_prompt=True))
        except InvalidRequest:
            return False

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
