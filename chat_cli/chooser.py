"""`Chooser`: asks for one key. Knows neither a terminal nor what is chosen."""

from __future__ import annotations

from typing import Protocol


class Chooser(Protocol):
    """Somebody at a terminal, who can be asked."""

    async def choose(self, question: str, keys: str) -> str | None:
        """One key of `keys`, the first of them for Enter; None: they would not say."""
