"""The values between a conversation, a chat template and a tokenizer.

Knows neither template nor tokenizer: what was said, and rendered text that remembers which
part of it somebody typed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message as a template sees it; role: "system", "user", "assistant", …"""

    role: str
    content: str


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
