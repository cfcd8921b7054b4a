"""A Markdown document as a sequence of blocks, each rendered by itself.

Owns the dialect and how a block looks. In this dialect a block's rendering depends on no other
block, which is what lets a stream print a finished block once and for ever: there are no link
reference definitions, no headings that only the line below makes one (a `---` there is a rule),
and no HTML (it is shown as text; rich would drop it). Each item of a list is a block, and its
number as wide as it is. Images are links: a terminal shows neither better. Knows no stream and no
cursor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, ListElement, Markdown, MarkdownElement
from rich.segment import Segment
from rich.text import Text

from radixchat.chat_cli.code_lines import CodeLines, folded
from radixchat.chat_cli.control_characters import neutralise

_Rule = Callable[[StateBlock, int, int, bool], bool]

_INDENT: Mapping[str, int] = MappingProxyType({"blockquote": 4, "li": 5})
_READABLE = 8
"""Columns in which a few words can still be read."""
_MAX_NESTING = 20
LONGEST_TABLE_HEADER = 240
"""Characters. A line that is longer is text, whatever the next one is."""


@dataclass(frozen=True, slots=True)
class Seam:
    """How a block stands to what is before it; by itself, unless it goes on with that.

    joined: without a blank row between. in_paragraph: its first line is text, whatever it looks
    like. number: of the item of an ordered list that it is.
    """

    joined: bool = False
    in_paragraph: bool = False
    number: int = 1


APART = Seam()
IN_PARAGRAPH = Seam(joined=True, in_paragraph=True)


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its tokens, its text, the line where that starts, and what it goes on with."""

    tokens: tuple[Token, ...]
    source: str
    first_line: int
    seam: Seam

    @property
    def kind(self) -> str:
        """The type of its first token: "fence", "paragraph_open"."""
        return self.tokens[0].type

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

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _FencedCode:
        """The element of a fence, or of an indented block."""
        return cls(language_of(token), markdown.code_theme)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fence = "" if self.lexer_name == "text" else self.lexer_name
        yield Text(f"```{fence}", style="dim", overflow="fold")
        lines = str(self.text).split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        for line in CodeLines(self.lexer_name).take(lines):
            for row in folded(line, options.max_width):
                yield from row
                yield Segment.line()
        yield Text("```", style="dim")


class _List(ListElement):
    """A list whose numbers are as wide as its last one; rich counts one more."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.list_type == "bullet_list_open":
            yield from super().__rich_console__(console, options)
            return
        first = 1 if self.list_start is None else self.list_start
        last = first + len(self.items) - 1
        for number, item in enumerate(self.items, first):
            yield from item.render_number(console, options, number, last)


class _BlockMarkdown(Markdown):
    """rich's Markdown over tokens that are parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _FencedCode,
        "code_block": _FencedCode,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
    }

    def __init__(self) -> None:
        # Terminal hyperlinks hide where a link leads; shown as text, the address can be judged.
        super().__init__("", hyperlinks=False)

    def of(self, tokens: tuple[Token, ...]) -> _BlockMarkdown:
        """The same with these tokens: rich makes a parser for each of its own."""
        block = copy.copy(self)
        block.parsed = list(tokens)
        return block


class MarkdownRenderer:
    """Parses text into blocks, and renders blocks into lines of segments for a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._markdown = _BlockMarkdown()
        self._parser = (
            MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
            .enable(["strikethrough", "table"])
            .disable(["reference", "image", "lheading"])
        )
        rules = self._parser.block.ruler
        for rule in rules.__rules__:
            if rule.name == "table":
                rules.at(rule.name, _unless_long(rule.fn), {"alt": rule.alt})
            if rule.name != "paragraph":
                rules.at(rule.name, _unless_in_paragraph(rule.fn), {"alt": rule.alt})

    @property
    def width(self) -> int:
        """The console's columns, at least one."""
        return max(1, self._console.width)

    def blocks(self, text: str, seam: Seam = APART) -> list[Block]:
        r"""The blocks of `text`, whose lines end in \n and which has no control characters.

        seam: how its first block stands to what was before it.
        """
        lines = text.split("\n")
        found: list[Block] = []
        tokens: list[Token] = []
        for token in self._parser.parse(text, {"in_paragraph": seam.in_paragraph}):
            for child in token.children or ():
                # A line of the model's stays a line: it writes verse, addresses and sums so.
                if child.type == "softbreak":
                    child.type = "hardbreak"
            tokens.append(token)
            if token.level == 0 and token.nesting != 1:
                found += _parts(tuple(tokens), lines, APART if found else seam)
                tokens = []
        assert not tokens
        return found

    def lines(self, block: Block) -> list[list[Segment]]:
        """The block on the console: without blank lines around it, without trailing spaces.

        What is nested too deeply for the console is shown as it was written.
        """
        fits = block.fits(self._console.width)
        content = self._markdown.of(block.tokens) if fits else Text(block.source, overflow="fold")
        lines = [trimmed(line) for line in self._console.render_lines(content, pad=False)]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        return lines

    def rows(self, blocks: Sequence[Block], *, follows: bool) -> list[list[Segment]]:
        """The blocks one below the other. follows: something is there before the first."""
        rows: list[list[Segment]] = []
        for block in blocks:
            if (rows or follows) and not block.seam.joined:
                rows.append([])
            rows += self.lines(block)
        return rows


def language_of(fence: Token) -> str:
    """The language that a fence names, "text" where it names none."""
    return next(iter(fence.info.split()), "text")


def trimmed(line: list[Segment]) -> list[Segment]:
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


def _parts(tokens: tuple[Token, ...], lines: list[str], seam: Seam) -> Iterator[Block]:
    """The block of these tokens; of a list its items, each a list of its own."""
    first = tokens[0]
    assert first.map is not None
    if first.type not in ("bullet_list_open", "ordered_list_open"):
        start, end = first.map
        yield Block(tokens, "\n".join(lines[start:end]), start, seam)
        return
    number = seam.number if seam.joined else int(first.attrs.get("start", 1))
    begins = 1
    for i, token in enumerate(tokens):
        if token.type == "list_item_close" and token.level == 1:
            item = tokens[begins]
            assert item.map is not None
            start, end = item.map
            opened = first.copy(attrs={"start": number}, map=[start, end])
            own = (opened, *tokens[begins : i + 1], tokens[-1])
            yield Block(own, "\n".join(lines[start:end]), start, replace(seam, number=number))
            seam, number, begins = Seam(joined=True), number + 1, i + 1


def _unless_in_paragraph(rule: _Rule) -> _Rule:
    def guarded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        goes_on = start == 0 and state.env["in_paragraph"]
        return not goes_on and rule(state, start, end, silent)

    return guarded


def _unless_long(rule: _Rule) -> _Rule:
    def guarded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        length = state.eMarks[start] - state.bMarks[start]
        return length <= LONGEST_TABLE_HEADER and rule(state, start, end, silent)

    return guarded
