"""The exact tokens of a text that was shown: what the conversation goes on from.

Owns the cut through a token: where a stop string begins in the middle of one, its first part was
shown and belongs to the conversation, and the token does not. Knows no response and no store.

    sampled     │ Hello │  there │ .\\nUser │ : │         stop "\\nUser:", shown "Hello there."
    ids         │ Hello │  there │ . │                   the last one is encoded, the others kept
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer


class AnswerIds:
    """The tokens of one answer as they are sampled, and those of the text shown of it so far."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = tokenizer.stream()
        self._length = 0
        # Of tokens not wholly shown yet that end with a whole character: how many tokens and how
        # many characters there are up to there.
        self._ends: deque[tuple[int, int]] = deque()
        self._shown = (0, 0)  # the last of them that is
        self.sampled: list[int] = []

    def push(self, token: int) -> None:
        """One more was sampled."""
        self.sampled.append(token)
        self._length += len(self._stream.push(token))
        if not self._stream.in_character:
            self._ends.append((len(self.sampled), self._length))

    def of(self, text: str, num_kept: int | None = None) -> tuple[int, ...]:
        """Ids that decode to `text`, all that was shown so far; it never gets shorter.

        Of the sampled ones, as many leading ones as lie in the text and end with a whole character;
        what is left of the text is encoded. Where a tokenizer changes what it encodes (NFC), that
        part may differ. num_kept: of the answer's end, AnswerText's.
        """
        while self._ends and self._ends[0][1] <= len(text):
            self._shown = self._ends.popleft()
        count, length = self._shown
        if num_kept is not None and num_kept > count:
            return tuple(self.sampled[:num_kept])  # the answer ended within a character
        kept, rest = tuple(self.sampled[:count][:num_kept]), text[length:]
        if not rest:
            return kept
        candidates = [kept + ids for ids in self._encodings(rest, at_start=not kept)]
        # A vocabulary that writes a space before every text may need the whole of it.
        candidates.append(tuple(self._tokenizer.encode(text)))
        decode = self._tokenizer.decode
        return next((ids for ids in candidates if decode(ids) == text), candidates[0])

    def _encodings(self, text: str, *, at_start: bool) -> Iterator[tuple[int, ...]]:
        """Ids that may decode to the text where others come before it: by itself, after a line."""
        piece = Piece(text, is_content=True)
        yield tuple(self._tokenizer.encode_prompt([piece], at_start=at_start))
        line = self._tokenizer.encode(f"\n{text}")
        for count in range(1, len(line) + 1):
            if self._tokenizer.decode(line[:count]) == "\n":
                yield tuple(line[count:])
