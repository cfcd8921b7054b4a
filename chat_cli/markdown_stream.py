"""A Markdown text that grows, as rows: those that are final, each given once, and the others.

Owns the text whose rows are not final. Knows no cursor and no time.

    reasoning ──► blocks ◄──► open fence

What is final does not depend on how the text was cut: the final rows of any cuts are the rows of
the whole document. Work is bounded by what is open: of a list its last item, of a fence its last
line, of a paragraph its last rows. A table's columns are as wide as all of its rows want; a long
one is drawn from its last rows until it ends.
"""

from __future__ import annotations

from markdown_it.token import Token
from rich.console import Console
from rich.segment import Segment

from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.markdown_blocks import (
    APART,
    IN_PARAGRAPH,
    Block,
    MarkdownRenderer,
    language_of,
    trimmed,
)
from radixchat.chat_cli.open_fence import OpenFence
from radixchat.chat_cli.open_table import OpenTable
from radixchat.chat_cli.paragraph_flow import ParagraphFlow
from radixchat.chat_cli.reasoning import Reasoning

_Rows = list[list[Segment]]


class MarkdownStream:
    """`feed` it text, `advance` it and draw its `open_rows`; `finish` it once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._renderer = MarkdownRenderer(console)
        self._flow = ParagraphFlow(self._renderer)
        self._reasoning: Reasoning | None = Reasoning(console)
        self._fence: OpenFence | None = None
        self._table: OpenTable | None = None
        self._fed: list[str] = []
        self._text = ""
        self._seam = APART  # of the text to what is final
        self._follows = False  # something is final

    @property
    def has_final(self) -> bool:
        """Whether there is a final row."""
        return self._follows

    def feed(self, delta: str) -> None:
        """More text."""
        self._fed.append(delta)

    def advance(self) -> _Rows:
        """The rows that have become final."""
        text = neutralise("".join(self._fed))
        self._fed.clear()
        rows: _Rows = []
        if self._reasoning is not None:
            self._give(rows, self._reasoning.feed(text))
            if not self._reasoning.has_ended:
                return rows
            self._text, self._reasoning = self._reasoning.rest, None
        else:
            self._text += text
        goes_on = True
        while goes_on:
            goes_on = self._advance_fence(rows) if self._fence else self._advance_blocks(rows)
        return rows

    def open_rows(self) -> _Rows:
        """The rows that may still change; of a long table only the last ones."""
        if self._reasoning is not None:
            return self._reasoning.peek()
        if self._fence is not None:
            return _trimmed(self._fence.peek(self._text, self._renderer.width))
        if self._table is not None:
            blocks = self._table.tail(self._text, self._console.height)
        else:
            blocks = self._renderer.blocks(self._text, self._seam)
        return self._renderer.rows(blocks, follows=self._follows)

    def finish(self) -> _Rows:
        """The last rows: all text is there."""
        rows = self.advance()
        if self._reasoning is not None:
            self._give(rows, self._reasoning.finish())
            self._text, self._reasoning = self._reasoning.rest, None
        if self._fence is not None:
            self._give(rows, self._fence.finish(self._text, self._renderer.width))
        else:
            blocks = self._renderer.blocks(self._text, self._seam)
            self._give(rows, self._renderer.rows(blocks, follows=self._follows))
        self._text = ""
        return rows

    def _give(self, rows: _Rows, more: _Rows) -> None:
        rows += more
        self._follows = self._follows or bool(more)

    def _advance_fence(self, rows: _Rows) -> bool:
        """Whether the fence has ended."""
        assert self._fence is not None
        *lines, last = self._text.split("\n")
        end = self._fence.ends_at(lines)
        self._give(rows, _trimmed(self._fence.take(lines[:end], self._renderer.width)))
        self._text = last if end is None else "\n".join([*lines[end + 1 :], last])
        if end is None:
            return False
        self._give(rows, self._fence.footer)
        self._fence = None
        return True

    def _advance_blocks(self, rows: _Rows) -> bool:
        """Whether a fence has begun."""
        if self._table is not None and self._table.goes_on(self._text):
            return False
        self._table = None
        # Only whole lines decide what is finished: `#` alone is a heading, `#1` goes on with the
        # paragraph before it. The last block of the whole lines may still grow.
        whole_lines = self._text[: self._text.rfind("\n") + 1]
        blocks = self._renderer.blocks(whole_lines, self._seam)
        if blocks:
            self._give(rows, self._renderer.rows(blocks[:-1], follows=self._follows))
            self._text = "\n".join(self._text.split("\n")[blocks[-1].first_line :])
            self._seam = blocks[-1].seam
        if len(blocks) > 1:
            self._flow.restart()
        if blocks and self._opens_fence(blocks[-1]):
            self._enter_fence(rows, blocks[-1].tokens[0])
            return True
        if blocks and self._is_long_table(blocks[-1]):
            self._table = OpenTable(self._renderer, self._text)
        else:
            self._cut_paragraph(rows)
        return False

    def _opens_fence(self, block: Block) -> bool:
        # One that is indented takes the indentation from its lines: its end is waited for.
        is_open = block.kind == "fence" and block.source.startswith(block.tokens[0].markup)
        return is_open and block.fits(self._renderer.width)

    def _enter_fence(self, rows: _Rows, token: Token) -> None:
        """Its first row is final. The text goes on behind its first line."""
        opener, _, self._text = self._text.partition("\n")
        frame = self._renderer.rows(self._renderer.blocks(opener), follows=self._follows)
        self._give(rows, frame[:-1])
        self._fence = OpenFence(token.markup, language_of(token), frame[-1:])
        self._seam = APART

    def _is_long_table(self, block: Block) -> bool:
        num_lines = self._text.count("\n")
        return block.kind == "table_open" and num_lines > 2 * self._console.height

    def _cut_paragraph(self, rows: _Rows) -> None:
        blocks = self._renderer.blocks(self._text, self._seam)
        if len(blocks) != 1 or blocks[0].kind != "paragraph_open":
            return
        if len(self._text) < self._renderer.width or not blocks[0].fits(self._renderer.width):
            return
        cut = self._flow.cut(self._text, self._seam, self._renderer.lines(blocks[0]))
        if cut is not None:
            gap: _Rows = [[]] if self._follows and not self._seam.joined else []
            self._give(rows, [*gap, *cut.rows])
            self._text = self._text[cut.offset :]
            self._seam = IN_PARAGRAPH


def _trimmed(rows: _Rows) -> _Rows:
    return [trimmed(row) for row in rows]
