"""The code that a Markdown text has between fences. Knows no terminal and no answer.

The dialect is that of `markdown_blocks.py`, without its look: what is drawn as fenced code is code
here, in a list or a quotation too. A fence that nothing closes goes on to the end of the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from markdown_it import MarkdownIt

_MAX_NESTING = 20


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """language: the word after the fence, "" without one. code: every line ends with a newline."""

    language: str
    code: str


def code_blocks(text: str) -> tuple[CodeBlock, ...]:
    """All of them, in the order of the text."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.disable(["reference", "inline", "html_block"])
    return tuple(
        CodeBlock(next(iter(token.info.split()), ""), _ended(token.content))
        for token in parser.parse(text)
        if token.type == "fence"
    )


def _ended(code: str) -> str:
    return code if not code or code.endswith("\n") else f"{code}\n"
