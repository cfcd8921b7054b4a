"""The `input` of a request as messages; what is no text in it is refused. Knows no conversation."""

from __future__ import annotations

from radixchat.server.api_error import invalid_value, missing, unsupported
from radixchat.server.asks import InputMessage
from radixchat.server.wire_input import Content, ContentPart, Input, InputItem

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXT_PARTS = ("input_text", "output_text", "text")


def input_messages(given: Input, *, to_answer: bool = True) -> tuple[InputMessage, ...]:
    """The messages, of which the last is the user's. Raises ApiError with the place of what is not.

    "developer" is OpenAI's newer name of "system". to_answer: False where the prompt is only to be
    computed: then anybody's message may be the last.
    """
    if isinstance(given, str):
        return (InputMessage("user", given),)
    messages = tuple(_message(f"input[{place}]", item) for place, item in enumerate(given))
    if not messages:
        raise invalid_value("input", "input is an empty list; it needs the user's message")
    if to_answer and messages[-1].role != "user":
        role = messages[-1].role
        raise invalid_value(
            "input", f"input ends with a message of {role!r}; the last is the user's"
        )
    return messages


def _message(place: str, item: InputItem) -> InputMessage:
    if item.type != "message":
        raise unsupported(
            f"{place}.type", f"{place} is a {item.type!r}; only messages are supported"
        )
    if item.role is None:
        raise missing(f"{place}.role")
    role = _ROLES.get(item.role)
    if role is None:
        allowed = ", ".join(_ROLES)
        raise invalid_value(f"{place}.role", f"{place}.role is {item.role!r}; allowed: {allowed}")
    if item.content is None:
        raise missing(f"{place}.content")
    return InputMessage(role, content_text(f"{place}.content", item.content))


def content_text(place: str, content: Content) -> str:
    """A message's text; its parts are joined. Raises ApiError of a part that is no text."""
    if isinstance(content, str):
        return content
    return "".join(_part(f"{place}[{number}]", part) for number, part in enumerate(content))


def _part(place: str, part: ContentPart) -> str:
    if part.type not in _TEXT_PARTS:
        message = f"{place} is a {part.type!r}; this server's models read text only"
        raise unsupported(f"{place}.type", message)
    if part.text is None:
        raise missing(f"{place}.text")
    return part.text
