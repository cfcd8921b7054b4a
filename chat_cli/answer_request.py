"""What is sent for an answer: options and texts as the wire's `response.*`.

The inverse of the server's `response_ask.py`: what is left to its default is not sent. Knows no
connection.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from radixchat.server.protocol import ResponseFormat, ResponseOptions
from radixchat.server.wire_client_events import (
    RegenerateExtras,
    ResponseCreate,
    ResponseExtend,
    ResponseRegenerate,
)
from radixchat.server.wire_input import Extras, GrammarFormat, Sampling, TextConfig, TextFormat
from radixchat.server.wire_value import wire_dict

_DEFAULTS = ResponseOptions()
# Those that OpenAI has a name for; the others are in `x`.
_OPENAI = ("temperature", "top_p", "max_output_tokens", "top_logprobs", "truncation")
_SAMPLING = tuple(field.name for field in dataclasses.fields(Sampling))


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerRequest:
    """How answers are asked for. token_ids: with the exact tokens at their end.

    progress: with what is known of the prompt while it is computed.
    """

    token_ids: bool = False
    progress: bool = False

    def create(
        self,
        event_id: str,
        conversation: str,
        text: str,
        options: ResponseOptions,
        edit_turn: int | None = None,
    ) -> dict[str, Any]:
        """Answer the text; edit_turn: as if it had been that user turn, from 1."""
        event = ResponseCreate(
            event_id=event_id,
            conversation=conversation,
            input=text,
            text=_text_config(options.response_format),
            x=Extras(edit_turn=edit_turn, **self._extras(options)),
            **_given(options, _OPENAI),
        )
        return wire_dict(event)

    def regenerate(
        self, event_id: str, conversation: str, options: ResponseOptions
    ) -> dict[str, Any]:
        """Answer a conversation's last message once more."""
        again = self._again(options)
        return wire_dict(ResponseRegenerate(event_id=event_id, conversation=conversation, **again))

    def sibling(self, event_id: str, response: str, options: ResponseOptions) -> dict[str, Any]:
        """Answer once more what a response answers."""
        again = self._again(options)
        return wire_dict(ResponseRegenerate(event_id=event_id, response_id=response, **again))

    def extend(self, event_id: str, conversation: str, options: ResponseOptions) -> dict[str, Any]:
        """Go on with a conversation's last answer."""
        again = self._again(options)
        return wire_dict(ResponseExtend(event_id=event_id, conversation=conversation, **again))

    def _again(self, options: ResponseOptions) -> dict[str, Any]:
        return {
            "text": _text_config(options.response_format),
            "x": RegenerateExtras(**self._extras(options)),
            **_given(options, _OPENAI),
        }

    def _extras(self, options: ResponseOptions) -> dict[str, Any]:
        extras = _given(options, _SAMPLING)
        if "logit_bias" in extras:
            extras["logit_bias"] = {str(token): bias for token, bias in options.logit_bias}
        extras["response_format"] = _grammar(options.response_format)
        extras["return_token_ids"] = self.token_ids or None
        extras["return_progress"] = self.progress or None
        return extras


def _given(options: ResponseOptions, names: tuple[str, ...]) -> dict[str, Any]:
    """The options of these names that are not the default."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(_DEFAULTS, name)}


def _text_config(wanted: ResponseFormat | None) -> TextConfig | None:
    match wanted:
        case ResponseFormat(kind="json_object"):
            return TextConfig(format=TextFormat(type="json_object"))
        case ResponseFormat(kind="json_schema"):
            schema = json.loads(wanted.value)
            return TextConfig(format=TextFormat(type="json_schema", name="answer", schema=schema))
        case _:
            return None


def _grammar(wanted: ResponseFormat | None) -> GrammarFormat | None:
    match wanted:
        case ResponseFormat(kind="regex" | "choice" | "lark" as kind):
            return GrammarFormat(kind=kind, value=wanted.value)
        case _:
            return None
