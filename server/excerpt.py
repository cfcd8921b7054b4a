"""A few tokens as text that a person can read: control tokens named, control characters escaped.

Knows tokens and their tokenizer, not what they are shown for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    texts = _texts(tokenizer, token_ids[start : index + MAX_CHARACTERS])
    # The window may begin within a character; one that it cuts there says nothing.
    before = "".join(texts[: index - start]).lstrip("\ufffd")
    before = _visible(before)[-_BEFORE_CHARACTERS:]
    after = _visible("".join(texts[index - start :]))
    room = MAX_CHARACTERS - len(before)
    return before + (after if len(after) <= room else f"{after[: room - 1]}…")


def _texts(tokenizer: Tokenizer, token_ids: Iterable[int]) -> list[str]:
    """What each token completes, and what the last leaves incomplete."""
    names = {id_: text for text, id_ in tokenizer.control_tokens.items()}
    stream = tokenizer.stream()
    texts: list[str] = []
    for id_ in token_ids:
        name = names.get(id_)
        texts.append(stream.push(id_) if name is None else stream.finish() + name)
    return [*texts, stream.finish()]


def _visible(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
