"""The reasoning that some models write before their answer, between <think> and </think>.

Owns where it begins and ends, however the text is cut, and how it looks: dim, and as it was
written. Whole lines are final, and of a line without an end the rows that are full. Knows no
Markdown.
"""

from __future__ import annotations

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.markdown_blocks import trimmed

_BEGIN, _END = "<think>", "</think>"
_DIM = Style(dim=True)


class Reasoning:
    """The reasoning at the beginning of an answer: `feed` it all text until it `has_ended`.

    Without a word in it, it is not shown at all: some models write an empty one.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text = ""
        self._begun = False  # something of it is there to be shown
        self._ended = False

    @property
    def has_ended(self) -> bool:
        """Whether there is no more of it, or none; what is left of the text is the answer."""
        return self._ended

    @property
    def rest(self) -> str:
        """The text that is not final; once ended, the beginning of the answer."""
        return self._text

    def feed(self, text: str) -> list[list[Segment]]:
        """More text; the rows that are final now."""
        self._text += text
        if not self._begun:
            start = self._text.lstrip()
            if not start.startswith(_BEGIN):
                self._ended = not _BEGIN.startswith(start)
                return []
            thought, end, rest = start.removeprefix(_BEGIN).partition(_END)
            if not thought.strip():
                self._ended = bool(end)
                self._text = rest.lstrip("\n") if end else self._text
                return []
            if not end and _END.startswith(thought.strip()):
                return []
            self._begun = True
            self._text = start
        thought, end, rest = self._text.partition(_END)
        if end:
            self._ended = True
            self._text = rest.lstrip("\n")
            return self._rows(thought + end)
        lines, newline, self._text = self._text.rpartition("\n")
        return [*(self._rows(lines) if newline else []), *self._full_rows()]

    def peek(self) -> list[list[Segment]]:
        """The rows that may still change."""
        return self._rows(self._text) if self._begun and self._text else []

    def finish(self) -> list[list[Segment]]:
        """The last rows of a reasoning that never ended; what only looked like one is `rest`."""
        if self._begun and not self._ended:
            rows, self._text = self.peek(), ""
            return rows
        return []

    def _rows(self, text: str) -> list[list[Segment]]:
        rows: list[list[Segment]] = []
        for line in text.split("\n"):
            rows += self._console.render_lines(Text(line, _DIM), pad=False)
        return [trimmed(row) for row in rows]

    def _full_rows(self) -> list[list[Segment]]:
        """The first rows of the line that has no end yet, but so many that no end is cut."""
        kept = 2 + 2 * len(_END) // max(1, self._console.width)
        rows = self._rows(self._text)
        final = rows[: max(0, len(rows) - kept)]
        at = 0
        for row in final:
            # Between two rows there is nothing but spaces, and tabs are spaces in a row.
            for word in "".join(segment.text for segment in row).split():
                at = self._text.index(word, at) + len(word)
        self._text = self._text[at:].lstrip() if final else self._text
        return final
