"""The exact tokens of a text that was shown: what the conversation goes on from.

Owns the cut through a token: where a stop string begins in the middle of one, its first part was
shown and belongs to the conversation, and the token does not. Knows no response and no store.

    sampled     │ Hello │  there │ .\\nUser │ : │         stop "\\nUser:", shown "Hello there."
    ids         │ Hello │  there │ . │                   the last one is encoded, the others kept
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence

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
        what is left of the text is encoded. In a vocabulary that has not every byte, that part may
        differ where the tokenizer changes what it encodes (NFC). num_kept: of the answer's end,
        AnswerText's.
        """
        while self._ends and self._ends[0][1] <= len(text):
            self._shown = self._ends.popleft()
        count, length = self._shown
        if num_kept is not None and num_kept > count:
            return tuple(self.sampled[:num_kept])  # the answer ended within a character
        kept, rest = tuple(self.sampled[:count][:num_kept]), text[length:]
        if not rest:
            return kept
        candidates = self._encodings(kept, rest)
        first = next(candidates)
        found = (ids for ids in itertools.chain((first,), candidates) if self._decodes(ids, text))
        return next(found, first)

    def _encodings(self, kept: tuple[int, ...], rest: str) -> Iterator[tuple[int, ...]]:
        """Ids that may decode to the text, the most usual first.

        The rest by itself; as after a line, for a vocabulary that writes a space before every text;
        one by one its characters, which the model has hardly seen like that; all of it anew.
        """
        piece = Piece(rest, is_content=True)
        yield kept + tuple(self._tokenizer.encode_prompt([piece], at_start=not kept))
        line = self._tokenizer.encode(f"\n{rest}")
        for count in range(1, len(line) + 1):
            if self._decodes(line[:count], "\n"):
                yield kept + tuple(line[count:])
        characters = [self._character(char) for char in rest]
        if all(characters):
            yield kept + tuple(itertools.chain.from_iterable(characters))
        yield tuple(self._tokenizer.encode(self._tokenizer.decode(kept) + rest))

    def _decodes(self, ids: Sequence[int], text: str) -> bool:
        return self._tokenizer.decode(ids) == text

    def _character(self, char: str) -> tuple[int, ...]:
        """The token that is this character, or those that are its bytes; () if there are none."""
        known, data = self._tokenizer.token_bytes, char.encode()
        parts = [data] if data in known else [bytes([byte]) for byte in data]
        return tuple(map(known.index, parts)) if all(part in known for part in parts) else ()
