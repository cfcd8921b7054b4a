"""Small traces on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def trace_file(path: Path, lines: Iterable[object]) -> str:
    """A file of JSON lines; returns its name."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return str(path)


def growing_chats(chats: int, turns: int) -> list[dict[str, object]]:
    """Token ids of chats that take turns: in each, a turn adds 20 tokens and 10 of an answer."""
    lines: list[dict[str, object]] = []
    for turn in range(1, turns + 1):
        for chat in range(chats):
            base = 1000 * (chat + 1)
            length = 30 * turn
            lines.append(
                {
                    "tokens": list(range(base, base + length - 10)),
                    "output": list(range(base + length - 10, base + length)),
                    "conversation": str(chat),
                    "turn": turn,
                }
            )
    return lines
