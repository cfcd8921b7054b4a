"""A long table that is still open: whether it goes on, and its last rows, without all of it.

Owns how much of its text was looked at. Knows no stream: what ends a table, its parser says.
"""

from __future__ import annotations

from radixchat.chat_cli.markdown_blocks import Block, MarkdownRenderer


class OpenTable:
    """The table that `text` begins with, and that had not ended when this was made."""

    def __init__(self, renderer: MarkdownRenderer, text: str) -> None:
        self._renderer = renderer
        lines = text.split("\n")
        self._head = "\n".join(lines[:2]) + "\n"
        self._seen = len(text) - len(lines[-1])

    def goes_on(self, text: str) -> bool:
        """Whether the whole lines that came since the last time are rows of it."""
        end = text.rfind("\n") + 1
        lines = text[self._seen : end]
        self._seen = end
        if not all(line.strip() for line in lines.splitlines()):
            return False
        return len(self._renderer.blocks(self._head + lines)) == 1

    def tail(self, text: str, num_lines: int) -> list[Block]:
        """The table as if there were no rows but the last ones."""
        lines = text[len(self._head) :].split("\n")
        return self._renderer.blocks(self._head + "\n".join(lines[-num_lines:]))
