"""The built-in tokenizer of chats: needs no model, gives token counts near those of real ones.

Text is cut as the pre-tokenizers of today's models cut it (a word with the space before it, up to
three digits, up to three marks, whitespace), and long words once more: every nine Latin letters,
every three of other alphabets, each CJK character. A piece's id is a hash of it, so ids are the
same on every machine and in every run. Messages are framed as ChatML frames them.

What it approximates: English text gets within 3 % of SmolLM2's token count (49,152 tokens); German
0.65, French 0.79, Japanese 0.60, Russian 0.49 and Chinese 0.61 of it, for SmolLM2 learned English,
and the rules here stand for a vocabulary that learned them all. Knows no trace.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from radixchat.engine.prompt import ChatMessage

START, END = 0, 1  # <|im_start|>, <|im_end|>; no text has these ids
_FIRST_TEXT_ID, _NUM_TEXT_IDS = 2, 2**31 - 2

_PIECE = re.compile(
    r" ?[A-Za-z]{1,9}"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
    r"| ?[^\W\d_A-Za-z]{1,3}"
    r"|\d{1,3}"
    r"| ?(?:[^\w\s]|_){1,3}"
    r"|\n+"
    r"|\s+"
)


def cut(text: str) -> list[str]:
    """The text's pieces; joined, they are the text."""
    return _PIECE.findall(text)


def encode(text: str) -> list[int]:
    """One id for each piece, 2 to 2**31 - 1."""
    return [_FIRST_TEXT_ID + zlib.crc32(piece.encode()) % _NUM_TEXT_IDS for piece in cut(text)]


class WordChat:
    """One chat as it grows, in tokens."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._encoded = 0

    def turn(
        self, messages: Sequence[ChatMessage], reply: str | None
    ) -> tuple[list[int], list[int]]:
        """The prompt that `messages` make, and the answer's ids, with the end that it samples.

        messages: those of the turn before, its reply, and what was said since.
        """
        for message in messages[self._encoded :]:
            self._ids += [START, *encode(f"{message.role}\n"), *encode(message.content)]
            self._ids += [END, *encode("\n")]
        self._encoded = len(messages)
        prompt = [*self._ids, START, *encode("assistant\n")]
        return prompt, [] if reply is None else [*encode(reply), END]
