"""The text of one answer, as far as it is certain to be shown: the one filter for every surface.

Owns what is held back: a character that is not complete, and the end of the text while a stop
string may still come of it. Knows which tokens make the shown text; neither what they mean nor who
reads it.

    stop "\\nUser:"
    token       Hello  wor    ld.    \\nUs   ual   \\n     User  :!
    shown       Hello  wor    ld.          \\nUsual
    held back                        \\nUs         \\n     \\nUser
    num_kept    1      2      3      3     5     5      5     5     stopped_by "\\nUser:"
"""

from __future__ import annotations

import copy
from collections import deque

from radixchat.engine.decode_stream import DecodeStream
from radixchat.engine.stop_strings import StopStrings


class AnswerText:
    """Tokens in, text out, up to the first stop string.

    What `push` and `finish` return, joined, is the decoding of the tokens up to the first stop
    string that is complete in it (`StopStrings` says which one is first). Only the longest end of
    the text that is a proper beginning of a stop string is held back, and the bytes of a character
    that is not complete. No stop string is looked for in the text of the first `min_tokens` tokens,
    a character that they begin included. A stop token is not pushed: it has no text.

    stopped_by: the stop string that was said; then nothing that comes is shown, or counted.
    num_kept: so many leading tokens belong wholly to what was shown, and end with a whole
    character; after a `finish` without a stop string all of them do. num_kept_characters: of their
    text. Each token costs the time of its own characters, however long the text.
    """

    __slots__ = (
        "_ends",
        "_held",
        "_length",
        "_min_tokens",
        "_num_shown",
        "_num_tokens",
        "_place",
        "_search_from",
        "_stops",
        "_stream",
        "num_kept",
        "num_kept_characters",
        "stopped_by",
    )

    def __init__(
        self, stream: DecodeStream, stop: tuple[str, ...] = (), min_tokens: int = 0
    ) -> None:
        """stream: of an answer that begins. stop: no empty text."""
        self._stream = stream
        self._stops = StopStrings(stop)
        self._place = self._stops.root
        self._min_tokens = min_tokens
        self._search_from = 0  # the first character that a stop string may have
        self._num_tokens = 0
        self._length = 0  # characters decoded: shown, held back or cut off
        self._num_shown = 0
        self._held = ""
        # Of tokens not wholly shown yet that end with a whole character: how many tokens and how
        # many characters there are up to there.
        self._ends: deque[tuple[int, int]] = deque()
        self.stopped_by: str | None = None
        self.num_kept = self.num_kept_characters = 0

    def push(self, token: int) -> str:
        """The text that this token makes certain."""
        if self.stopped_by is not None:
            return ""
        text = self._stream.push(token)
        self._num_tokens += 1
        in_character = self._stream.in_character
        if self._num_tokens <= self._min_tokens:
            self._search_from = self._length + len(text) + in_character
        shown = self._take(text)
        if not in_character:
            self._ends.append((self._num_tokens, self._length))
        self._show(shown)
        return shown

    def finish(self) -> str:
        """What was held back; the answer has ended."""
        if self.stopped_by is not None:
            return ""
        shown = self._take(self._stream.finish())
        if self.stopped_by is None:
            shown, self._held = shown + self._held, ""
            self._ends.append((self._num_tokens, self._length))
        self._show(shown)
        return shown

    def copy(self) -> AnswerText:
        """An independent one in the same state."""
        other = copy.copy(self)
        other._stream, other._ends = self._stream.copy(), self._ends.copy()
        return other

    def _take(self, text: str) -> str:
        """Look for stop strings in more text; what of it, and of what was held, is shown now."""
        start = max(self._search_from - self._length, 0)
        self._length += len(text)
        place, root = self._place, self._stops.root
        if not root.links:
            return text
        text, end = self._held + text, len(self._held) + start
        for char in text[end:]:
            end += 1
            place = place.links.get(char, root)
            if place.found is not None:
                self.stopped_by, self._held = place.found, ""
                return text[: end - len(place.found)]
        certain = len(text) - place.depth
        self._place, self._held = place, text[certain:]
        return text[:certain]

    def _show(self, text: str) -> None:
        self._num_shown += len(text)
        while self._ends and self._ends[0][1] <= self._num_shown:
            self.num_kept, self.num_kept_characters = self._ends.popleft()
