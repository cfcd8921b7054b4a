"""Tokens to text, one token at a time, without ever showing half a character.

Owns the bytes of a character that is not complete yet. Knows bytes only: which bytes a token
stands for is the vocabulary's business.
"""

from __future__ import annotations

import codecs
import copy
from collections.abc import Sequence


class DecodeStream:
    """The text of one answer as its tokens arrive.

    What `push` and `finish` return, joined, is `Tokenizer.decode` of the same ids. At most three
    bytes are held back (the beginning of a valid UTF-8 sequence); bytes that cannot become a
    character are U+FFFD as soon as that is certain.
    """

    __slots__ = ("_decoder", "_skip_space", "_token_bytes")

    def __init__(self, token_bytes: Sequence[bytes], *, skip_space: bool) -> None:
        self._token_bytes = token_bytes
        self._skip_space = skip_space
        self._decoder = _new_decoder()

    @property
    def in_character(self) -> bool:
        """Whether bytes are held back: the beginning of exactly one character, maybe U+FFFD."""
        return bool(self._decoder.getstate()[0])

    def copy(self) -> DecodeStream:
        """An independent one in the same state."""
        other = copy.copy(self)
        other._decoder = _new_decoder()
        other._decoder.setstate(self._decoder.getstate())
        return other

    def push(self, token_id: int) -> str:
        """The text that this token completes; "" while a character is incomplete.

        An id beyond the vocabulary (a padded row of the embedding) has no text.
        """
        assert token_id >= 0, f"token id {token_id}"
        data = self._token_bytes[token_id] if token_id < len(self._token_bytes) else b""
        return self._without_first_space(self._decoder.decode(data))

    def finish(self) -> str:
        """U+FFFD for a character that the last token left incomplete, else ""."""
        return self._without_first_space(self._decoder.decode(b"", final=True))

    def _without_first_space(self, text: str) -> str:
        if self._skip_space and text:
            self._skip_space = False
            return text.removeprefix(" ")
        return text


def _new_decoder() -> codecs.IncrementalDecoder:
    """The standard library's: it waits for a sequence that can still become valid.

    It replaces any other at once, by the same rule as bytes.decode(errors="replace").
    """
    return codecs.getincrementaldecoder("utf-8")(errors="replace")
