"""What became of a message, in a word for people: the same one wherever messages are shown.

Knows the protocol's states. "interrupted" is whatever ended an answer early, limits most of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_WORDS: Mapping[str, str] = MappingProxyType(
    {"complete": "", "interrupted": "cut short", "error": "failed"}
)


def state_word(status: str) -> str:
    """Of a MessageView's status; "": the message is complete."""
    return _WORDS.get(status, status)
