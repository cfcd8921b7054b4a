"""Keeps what people typed apart from what a template wrote, through any template.

Owns a one-to-one exchange of characters: everything but whitespace in a message is replaced by
private-use characters before the template runs, and put back afterwards. So a template may
trim, split, slice or repeat a message, and every character of the result still tells where it
came from. Knows no template and no tokenizer.
"""

from __future__ import annotations

import re

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import Piece

_FIRST, _LAST = 0xF0000, 0x10FFFC  # planes 15 and 16, but for the marker
MARKER = chr(0x10FFFD)

_MASKED = f"[{chr(_FIRST)}-{chr(_LAST)}]+"
# Whitespace inside a message is not masked, so that a template can see it; it belongs to the
# message where masked text stands on both sides.
_CONTENT = re.compile(rf"{_MASKED}(?:\s+{_MASKED})*")


class ContentMask:
    """The exchange for one rendering.

    Messages may use private-use characters themselves: those are exchanged like any other.
    """

    def __init__(self) -> None:
        self._hidden: dict[int, int] = {}
        self._shown: dict[int, int] = {}

    def hide(self, text: str, keep: re.Pattern[str] | None = None) -> str:
        """`text` with every character masked but whitespace and what `keep` matches.

        Raises InvalidRequest when the messages have more than 131,069 different characters.
        """
        for char in set(text):
            if not char.isspace() and ord(char) not in self._hidden:
                self._add(ord(char))
        if keep is None:
            return text.translate(self._hidden)
        parts = keep.split(text)  # with one group: text, kept, text, kept, ..., text
        parts[::2] = [part.translate(self._hidden) for part in parts[::2]]
        return "".join(parts)

    def pieces(self, rendered: str) -> list[Piece]:
        """What was rendered, unmasked, cut where it changes between template and content."""
        pieces: list[Piece] = []
        end = 0
        for match in _CONTENT.finditer(rendered):
            if match.start() > end:
                pieces.append(Piece(rendered[end : match.start()], is_content=False))
            pieces.append(Piece(match[0].translate(self._shown), is_content=True))
            end = match.end()
        if end < len(rendered):
            pieces.append(Piece(rendered[end:], is_content=False))
        return pieces

    def _add(self, code: int) -> None:
        masked = _FIRST + len(self._hidden)
        if masked > _LAST:
            raise InvalidRequest(
                f"the messages have more than {len(self._hidden)} different characters"
            )
        self._hidden[code] = masked
        self._shown[masked] = code


def uses_mask_characters(source: str) -> bool:
    """Whether a template's own text has characters that the mask needs for messages."""
    return any(_FIRST <= ord(char) <= ord(MARKER) for char in source)
