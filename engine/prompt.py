"""The values between a conversation, a chat template and a tokenizer.

Knows neither template nor tokenizer: what was said, and rendered text that remembers which
part of it somebody typed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that an answer calls; arguments: a JSON text, usually of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message as a template sees it; role: "system", "user", "assistant", "tool", …

    tool_calls: of an answer. tool_call_id: of a tool's result, the call that it answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of rendered prompt.

    Where `is_content` is true somebody typed the text, or a model wrote it: it never becomes a
    control token, whatever it says. The rest is the template's own.
    """

    text: str
    is_content: bool


def joined(pieces: list[Piece]) -> str:
    """The rendering as one text, as a person would read it."""
    return "".join(piece.text for piece in pieces)
