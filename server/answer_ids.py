"""The exact tokens of a text that was shown: what the conversation goes on from.

Owns the cut through a token: where a stop string begins in the middle of one, its first part was
shown and belongs to the conversation, and the token does not. Knows no response and no store.

    sampled     │ Hello │  there │ .\\nUser │ : │         stop "\\nUser:", shown "Hello there."
    ids         │ Hello │  there │ . │                   the last one is encoded, the others kept
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer


def answer_ids(tokenizer: Tokenizer, sampled: Sequence[int], text: str) -> tuple[int, ...]:
    """Ids that decode to `text`, which the decoding of the sampled ones begins with.

    Of those, as many leading ones as lie in the text and end with a whole character; what is left
    of the text is encoded. Where a tokenizer changes what it encodes (NFC), that part may differ.
    """
    stream = tokenizer.stream()
    length = num_kept = kept_length = 0
    for count, token in enumerate(sampled, 1):
        length += len(stream.push(token))
        if length > len(text):
            break
        if not stream.in_character:
            num_kept, kept_length = count, length
    else:
        if length + len(stream.finish()) == len(text):
            return tuple(sampled)
    kept, rest = tuple(sampled[:num_kept]), text[kept_length:]
    if not rest:
        return kept
    candidates = [kept + ids for ids in _encodings(tokenizer, rest, at_start=not kept)]
    # A vocabulary that writes a space before every text may need the whole of it.
    candidates.append(tuple(tokenizer.encode(text)))
    return next((ids for ids in candidates if tokenizer.decode(ids) == text), candidates[0])


def _encodings(tokenizer: Tokenizer, text: str, *, at_start: bool) -> Iterator[tuple[int, ...]]:
    """Ids that may decode to the text where others come before it: as it is, and as a new line."""
    yield tuple(tokenizer.encode_prompt([Piece(text, is_content=True)], at_start=at_start))
    line = tokenizer.encode(f"\n{text}")
    for count in range(1, len(line) + 1):
        if tokenizer.decode(line[:count]) == "\n":
            yield tuple(line[count:])
