"""A Markdown document as a sequence of top-level blocks, each rendered by itself.

Owns the dialect and how a block looks. In this dialect a block's rendering depends on no other
block, which is what lets a stream print a finished block once and for ever: there are no link
reference definitions, and no HTML (it is shown as text; rich would drop it). Images are links:
a terminal shows neither better. Knows no stream and no cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

from radixchat.chat_cli.control_characters import neutralise

_INDENT: Mapping[str, int] = MappingProxyType({"blockquote": 4, "li": 5})
_READABLE = 8
"""Columns in which a few words can still be read."""
_MAX_NESTING = 20


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block: its tokens, its text, and the line where that starts."""

    tokens: tuple[Token, ...]
    source: str
    first_line: int

    def fits(self, width: int) -> bool:
        """Whether its deepest text has room; what has none, rich and the parser drop."""
        indent = deepest = 0
        for token in self.tokens:
            indent += token.nesting * _INDENT.get(token.tag, 0)
            deepest = max(deepest, indent)
        level = max(token.level for token in self.tokens)
        return level < _MAX_NESTING - 1 and deepest + _READABLE <= width


class _FencedCode(CodeBlock):
    """Code between its fences, highlighted, without padding: what is copied is the code."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fence = "" if self.lexer_name == "text" else self.lexer_name
        yield Text(f"```{fence}", style="dim", overflow="fold")
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme="ansi_dark",
            background_color="default",
            word_wrap=True,
        )
        yield Text("```", style="dim")


class _BlockMarkdown(Markdown):
    """rich's Markdown over tokens that are parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _FencedCode,
        "code_block": _FencedCode,
    }

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        # Terminal hyperlinks hide where a link leads; shown as text, the address can be judged.
        super().__init__("", hyperlinks=False)
        self.parsed = list(tokens)


class MarkdownRenderer:
    """Parses text into blocks, and renders blocks into lines of segments for a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parser = (
            MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
            .enable(["strikethrough", "table"])
            .disable(["reference", "image"])
        )

    def blocks(self, text: str) -> list[Block]:
        r"""The blocks of `text`, whose lines end in \n and which has no control characters."""
        lines = text.split("\n")
        found: list[Block] = []
        tokens: list[Token] = []
        for token in self._parser.parse(text):
            for child in token.children or ():
                # A line of the model's stays a line: it writes verse, addresses and sums so.
                if child.type == "softbreak":
                    child.type = "hardbreak"
            tokens.append(token)
            if token.level == 0 and token.nesting != 1:
                first = tokens[0]
                assert first.map is not None
                start, end = first.map
                source = "\n".join(lines[start:end])
                found.append(Block(tuple(tokens), source, start))
                tokens = []
        assert not tokens
        return found

    def lines(self, block: Block) -> list[list[Segment]]:
        """The block on the console: without blank lines around it, without trailing spaces.

        What is nested too deeply for the console is shown as it was written.
        """
        fits = block.fits(self._console.width)
        content = _BlockMarkdown(block.tokens) if fits else Text(block.source, overflow="fold")
        lines = [_trimmed(line) for line in self._console.render_lines(content, pad=False)]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        return lines


def _trimmed(line: list[Segment]) -> list[Segment]:
    """The line without trailing spaces, which a narrower terminal would wrap into blank lines.

    Entities can bring control characters back that the text did not show (`&#13;`).
    """
    segments = [Segment(neutralise(text), style) for text, style, control in line if not control]
    while segments:
        text, style, _ = segments.pop()
        if text := text.rstrip(" "):
            segments.append(Segment(text, style))
            break
    return segments
