"""The part of a text around the words that were looked for, on one line, these between « and ».

Finds them much as SQLite's tokenizer does: whatever their case and their accents, at the beginning
of a word. Where it finds none of them the text's beginning has to do.
"""

from __future__ import annotations

import re
import unicodedata

from radixchat.server.store_words import UNSPACED

BEFORE, AFTER = 60, 140
MAX_SCANNED = 200_000

_MARKS = "[\u0300-\u036f]*"  # what a letter may be followed by, where accents are written apart


def snippet(text: str, terms: list[str]) -> str:
    """At most about 200 characters of the text."""
    folded = _folded(text[:MAX_SCANNED])
    words = re.compile("|".join(map(_pattern, terms)))
    first = words.search(folded)
    begin = 0 if first is None else _word_start(text, max(0, first.start() - BEFORE))
    end = _word_end(text, (begin if first is None else first.start()) + AFTER)
    parts, done = [], begin
    for match in words.finditer(folded, begin, min(end, len(folded))):
        parts += [text[done : match.start()], "«", text[match.start() : match.end()], "»"]
        done = match.end()
    line = " ".join("".join([*parts, text[done:end]]).split())
    return ("…" if begin else "") + line + ("…" if end < len(text) else "")


def _folded(text: str) -> str:
    """The text without case and accents, character for character."""
    fold = {char: _folded_character(char) for char in set(text)}
    return "".join(map(fold.__getitem__, text))


def _folded_character(char: str) -> str:
    lower = unicodedata.normalize("NFD", char)[0].lower()
    return lower if len(lower) == 1 else char


def _pattern(term: str) -> str:
    """What finds a term in a folded text: its words in a row, the last one's beginning."""
    words = re.findall(r"[^\W_]+", _folded(unicodedata.normalize("NFC", term)))
    spelt = (_MARKS.join(map(re.escape, word)) + _MARKS for word in words)
    begins_word = "" if UNSPACED.match(term) else r"(?<![^\W_])"
    return begins_word + r"[\W_]+".join(spelt)


def _word_start(text: str, index: int) -> int:
    """That place, or the next beginning of a word close behind it."""
    space = text.find(" ", index, index + 20)
    return index if index == 0 or space < 0 else space + 1


def _word_end(text: str, index: int) -> int:
    """That place, or the end of a word close before it."""
    if index >= len(text):
        return len(text)
    space = text.rfind(" ", index - 20, index)
    return index if space < 0 else space
