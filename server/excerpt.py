"""A few tokens as text that a person can read: control tokens named, control characters escaped.

Knows tokens and their tokenizer, not what they are shown for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, dropwhile

from radixchat.engine.tokenizer import Tokenizer

MAX_CHARACTERS = 80
# What precedes the token in question, to recognise the place by.
_BEFORE_CHARACTERS, _BEFORE_TOKENS = 24, 24


def excerpt(tokenizer: Tokenizer, token_ids: Sequence[int], index: int) -> str:
    """At most 80 characters around token number `index`: a little before it, then the rest.

    At index == len(token_ids), the end.
    """
    assert 0 <= index <= len(token_ids)
    start = max(0, index - _BEFORE_TOKENS)
    texts = _texts(tokenizer, token_ids[start : index + MAX_CHARACTERS + 1])
    # The window may begin within a character; one that it cuts there says nothing.
    before = dropwhile("\ufffd".__eq__, chain.from_iterable(texts[: index - start]))
    leading = "".join(reversed(list(_first(reversed(list(before)), _BEFORE_CHARACTERS))))
    after = list(chain.from_iterable(texts[index - start :]))
    room = MAX_CHARACTERS - len(leading)
    if sum(map(len, after)) <= room:
        return leading + "".join(after)
    return leading + "".join(_first(after, room - 1)) + "…"


def _texts(tokenizer: Tokenizer, token_ids: Iterable[int]) -> list[list[str]]:
    """What each token completes, and what the last leaves incomplete, in parts to be kept whole."""
    names = {id_: text for text, id_ in tokenizer.control_tokens.items()}
    stream = tokenizer.stream()
    texts: list[list[str]] = []
    for id_ in token_ids:
        if id_ in names:
            texts.append([*map(_visible, stream.finish()), names[id_]])
        else:
            texts.append([*map(_visible, stream.push(id_))])
    return [*texts, [*map(_visible, stream.finish())]]


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _first(parts: Iterable[str], max_characters: int) -> Iterator[str]:
    """As many whole parts as fit."""
    for part in parts:
        max_characters -= len(part)
        if max_characters < 0:
            return
        yield part
