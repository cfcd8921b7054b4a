"""Guesses the next tokens from what the conversation has said before."""

from __future__ import annotations

from collections.abc import Sequence


class PromptLookup:
    """Drafts for one answer."""

    def __init__(self, branches: Sequence[Sequence[int]] = ()) -> None:
        self._branches = branches

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that may follow `tokens`."""
        return []

    def report(self, proposed: int, accepted: int) -> None:
        """How many of the tokens proposed last were right."""
