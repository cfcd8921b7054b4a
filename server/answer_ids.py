"""The exact tokens of a text that was shown: what the conversation goes on from.

Owns the cut through a token: where a stop string begins in the middle of one, its first part was
shown and belongs to the conversation, and the token does not. Knows no response and no store.

    sampled     │ Hello │  there │ .\\nUser │ : │         stop "\\nUser:", shown "Hello there."
    ids         │ Hello │  there │ . │                   the last one is encoded, the others kept
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer


def answer_ids(
    tokenizer: Tokenizer, sampled: Sequence[int], text: str, num_characters: int
) -> tuple[int, ...]:
    """Ids that decode to `text`: the sampled ones, whose text is its first `num_characters`, then
    the encoding of what is left.

    In a vocabulary that has not every byte, that part may differ where the tokenizer changes what
    it encodes (NFC).
    """
    kept, rest = tuple(sampled), text[num_characters:]
    if not rest:
        return kept
    candidates = _encodings(tokenizer, kept, rest)
    first = next(candidates)
    every = itertools.chain((first,), candidates)
    return next((ids for ids in every if tokenizer.decode(ids) == text), first)


def _encodings(tokenizer: Tokenizer, kept: tuple[int, ...], rest: str) -> Iterator[tuple[int, ...]]:
    """Ids that may decode to the text, the most usual first.

    The rest by itself; as after a line, for a vocabulary that writes a space before every text;
    one by one its characters, which the model has hardly seen like that; all of it anew.
    """
    piece = Piece(rest, is_content=True)
    yield kept + tuple(tokenizer.encode_prompt([piece], at_start=not kept))
    line = tokenizer.encode(f"\n{rest}")
    for count in range(1, len(line) + 1):
        if tokenizer.decode(line[:count]) == "\n":
            yield kept + tuple(line[count:])
    characters = [_character(tokenizer, char) for char in rest]
    if all(characters):
        yield kept + tuple(itertools.chain.from_iterable(characters))
    yield tuple(tokenizer.encode(tokenizer.decode(kept) + rest))


def _character(tokenizer: Tokenizer, char: str) -> tuple[int, ...]:
    """The token that is this character, or those that are its bytes; () if there are none."""
    known, data = tokenizer.token_bytes, char.encode()
    parts = [data] if data in known else [bytes([byte]) for byte in data]
    return tuple(map(known.index, parts)) if all(part in known for part in parts) else ()
