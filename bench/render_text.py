"""Answers to be rendered: Markdown as models write it, in pieces as large as tokens, from a seed.

Knows no terminal. A piece is a word with the space before it, a sign, or white space: about four
characters, as the vocabularies of today have it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

_PIECE = re.compile(r" ?\w{1,7}|\n+|[^\w\n]")
_PROSE = """
    the cache keeps every prefix that a conversation has sent and only what is new is computed
    again tokens pages tree branch answer model because so when each one of them may be shared
    between turns without copying anything from memory which makes long chats cheap naïve Größe
"""
_WORDS = tuple(_PROSE.split())
_SIGNS = ("😀", "🐳", "👩‍👩‍👧", "漢字", "日本語", "한국어", "✅", "⚠️", "é", "ñ")
_NAMES = ("page", "prefix", "node", "length", "tokens", "pool", "index", "cached", "span", "key")


def _words(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(low, high)))


def _sentence(rng: random.Random) -> str:
    marked = rng.choice(("**{}**", "*{}*", "`{}`", "{}", "{}", "{}")).format(_words(rng, 1, 3))
    link = " ([docs](https://example.org/a_b))" if rng.random() < 0.05 else ""
    sign = f" {rng.choice(_SIGNS)}" if rng.random() < 0.1 else ""
    return f"{_words(rng, 3, 9)} {marked} {_words(rng, 2, 9)}{link}{sign}.".capitalize()


def _paragraph(rng: random.Random) -> str:
    return " ".join(_sentence(rng) for _ in range(rng.randint(2, 6))) + "\n\n"


def _code_line(rng: random.Random) -> str:
    a, b, c = rng.sample(_NAMES, 3)
    line = rng.choice(
        (
            f"def {a}_{b}({c}: int, {a}: str = {rng.randrange(99)!r}) -> list[str]:",
            f"    if {a} > {rng.randrange(999)} and not {b}.{c}:",
            f'        return [f"{{{a}}} of {{{b}}}" for {b} in range({c})]',
            f"    # {_words(rng, 3, 8)}",
            f"    {a}[{b}] = {c} * {rng.random():.3f} + len({a!r})",
            "",
        )
    )
    return line + "\n"


def _code(rng: random.Random) -> str:
    lines = "".join(_code_line(rng) for _ in range(rng.randint(5, 90)))
    return f"```python\n{lines}```\n\n"


def _items(rng: random.Random) -> str:
    bullet = rng.choice(("- ", "1. "))
    items = [f"{bullet}{_sentence(rng)}\n" for _ in range(rng.randint(3, 9))]
    return "".join(items) + "\n"


def _row(rng: random.Random) -> str:
    cells = _words(rng, 1, 3), rng.choice(_SIGNS), str(rng.randrange(10**6))
    return f"| {' | '.join(cells)} |\n"


def _table(rng: random.Random) -> str:
    rows = "".join(_row(rng) for _ in range(rng.randint(3, 12)))
    return f"| name | sign | 名前 |\n|---|:---:|---:|\n{rows}\n"


def _mixed(rng: random.Random) -> Iterator[str]:
    parts = (_paragraph, _paragraph, _paragraph, _items, _items, _table, _code)
    while True:
        yield f"## {_words(rng, 2, 5)}\n\n"
        for part in rng.sample(parts, 4):
            yield part(rng)


def _after(
    opening: str, unit: Callable[[random.Random], str]
) -> Callable[[random.Random], Iterator[str]]:
    def parts(rng: random.Random) -> Iterator[str]:
        yield opening
        while True:
            yield unit(rng)

    return parts


KINDS: Mapping[str, Callable[[random.Random], Iterator[str]]] = MappingProxyType(
    {
        "mixed": _mixed,
        "code": _after("```python\n", _code_line),
        "paragraph": _after("", lambda rng: _sentence(rng) + " "),
        "list": _after("", lambda rng: f"- {_sentence(rng)}\n"),
        "table": _after("| name | sign | 名前 |\n|---|:---:|---:|\n", _row),
    }
)


def pieces(kind: str, num_tokens: int, seed: int) -> list[str]:
    """The first `num_tokens` pieces of an answer of one of KINDS."""
    parts = KINDS[kind](random.Random(f"{kind} {seed}"))
    return list(islice((piece for part in parts for piece in _PIECE.findall(part)), num_tokens))
