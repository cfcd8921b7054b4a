"""Markdown as a model might write it, long and awkward, from a generator of random numbers.

Knows no renderer: whatever it makes is a document.
"""

from __future__ import annotations

import random

_WORDS = (
    *("word", "**bold**", "*em*", "**bold text here**", "`code`", "a*b", "2 * 3", "snake_case"),
    *("[l](http://u.v/x_y)", "[1]", "~~s~~", "_u_", "漢字漢字", "😀", "👩‍👩‍👧", "`` a`b ``", "\\*"),
    *("\\", "&amp;", "<b>", "<http://a.b>", "|", "a | b", "x" * 50, "**", "*", "`", "[", "]", "~~"),
    *("_", "-", "1.", "#", ">", "==", "---", "\t", "\x1b[1m", "(", "!", "![i](s)", "\r", "\x9b2J"),
)
_CODE = (
    *("x = 1\n", "\n", "  \n", "'''\n", "/* a\n", "*/\n", "\tif a:\n", "漢字" * 20 + "\n"),
    *("a" * 70 + "  b\n", "``\n", "```x\n", "~~~\n", "def f(x): return 'a'\n"),
)
_CELLS = ("| 😀 | 漢字 |\n", "| **x** | `y` |\n", "| a b c d | h |\n", "| a |\n", "no pipe\n")
_OTHERS = (
    *("# Head\n", "\n", "> q\n> r\n", "---\n", "===\n", "> - a\n>   b\n", "    indented\n\n"),
    *("<think>\nx\n</think>\n", "text\n---\n", "\n\n", "[x]: http://a\n", "* * *\n"),
)
_ITEMS = (
    *("a", "", "[ ] t", "```\n  code\n  ```", "| a | b |\n  |---|---|\n  | 1 | 2 |", "- b\n  - c"),
)


def document(rng: random.Random) -> str:
    """Some blocks, now and then behind a reasoning."""
    blocks = [rng.choice((_paragraph, _paragraph, _fence, _list, _table, _other)) for _ in "12345"]
    text = "".join(
        block(rng) + rng.choice(("", "\n", "\n\n")) for block in blocks[: rng.randint(1, 5)]
    )
    return _reasoning(rng) + text if rng.random() < 0.3 else text


def cut(text: str, rng: random.Random, scale: int = 1) -> list[str]:
    """The text in pieces of very different sizes."""
    pieces = []
    while text:
        size = rng.choice((1, 2, 3, 7, 20, 60)) * scale
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _paragraph(rng: random.Random) -> str:
    words = [*rng.sample(_WORDS, rng.randint(2, 8)), *["word", "other"] * rng.randint(1, 8)]
    spaces = (" ",) * 7 + ("\n", "  ", "  \n")
    number = rng.choice((5, 40, 200, 400))
    return "".join(rng.choice(words) + rng.choice(spaces) for _ in range(number))


def _fence(rng: random.Random) -> str:
    fence = rng.choice(("```", "~~~", "````", "``` ", "  ```"))
    language = rng.choice(("python", "c", "", "html", "nolang x"))
    body = "".join(rng.choice(_CODE) for _ in range(rng.choice((0, 3, 40, 100))))
    bare = fence.strip()
    end = rng.choice((f"{bare}\n", f"{bare} \n", "", f"{bare}``\n"))
    return f"{fence}{language}\n{body}{end}"


def _list(rng: random.Random) -> str:
    bullet = rng.choice(("- ", "* ", "1. ", "7) ", "+ "))
    text = ""
    for _ in range(rng.choice((2, 5, 40))):
        content = rng.choice((*_ITEMS, _paragraph(rng)[:60]))
        end = rng.choice(("\n", "\n", "\n\n", "\n  more\n", "\n\n  para\n\n"))
        text += rng.choice(("", "", "", "  ", "   ")) + bullet + content + end
    return text


def _table(rng: random.Random) -> str:
    rows = "".join(rng.choice(_CELLS) for _ in range(rng.choice((1, 5, 60))))
    end = rng.choice(("", "\n", "\n\n"))
    return f"| a | 名前 |\n|---|:--:|\n{rows}{end}"


def _other(rng: random.Random) -> str:
    return rng.choice(_OTHERS)


def _reasoning(rng: random.Random) -> str:
    begin = rng.choice(
        ("<think>", "\n<think>\n", "<think></think>\n\n", "<think>\n\n</think>", "<t")
    )
    thought = rng.choice(("", "thought " * rng.choice((1, 80)), "a\n\nb\n"))
    return begin + thought + rng.choice(("", "</think>", "\n</think>\n\n"))
