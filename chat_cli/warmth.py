"""The line at the bottom of the screen: who answers, how full the context is, how warm it is.

Owns its words, and how they are shortened for a narrow terminal. Asking changes nothing, and
fails never: an error leaves what was known before. Knows no terminal.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rich.cells import cell_len, set_cell_size

from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.server.protocol import RadixChatError

_GAUGE_CELLS = 8
_MODEL_CELLS = 32
_LEAST_MODEL_CELLS = 6


@dataclass(frozen=True, slots=True)
class Warmth:
    """Of the next turn of a conversation; None: it is not made yet.

    tokens: what it has of the context, n_ctx; cached: how many of these are in the cache. None, and
    of the context 0: nobody could tell.
    """

    model: str
    n_ctx: int
    conversation: str | None = None
    tokens: int | None = None
    cached: int | None = None

    def line(self, width: int) -> str:
        """What of it fits into so many cells; "" where nothing does."""
        shortenings = self._shortenings()
        for context, warm in shortenings[:-1]:
            rest = [part for part in (context, warm) if part]
            if not rest:
                return _cut(neutral_line(self.model), width)
            text = " · ".join(rest)
            room = min(width - cell_len(text) - 3, _MODEL_CELLS)
            if room >= _LEAST_MODEL_CELLS:
                return f"{_cut(neutral_line(self.model), room)} · {text}"
        for context, warm in shortenings[-2:]:  # the state is worth more than the model's name
            text = " · ".join(part for part in (context, warm) if part)
            if cell_len(text) <= width:
                return text
        return ""

    def _shortenings(self) -> list[tuple[str, str]]:
        """Context and warmth in words, the longest first."""
        if self.tokens is None or not self.n_ctx:
            return [("", "")] * 2
        share = self.tokens / self.n_ctx
        percent = "<1%" if 0 < share < 0.01 else f"{share:.0%}"
        of = f"{self.tokens:,}/{self.n_ctx:,}"
        long = f"context {_gauge(share)} {self.tokens:,} of {self.n_ctx:,} ({percent})"
        state, cached = self.state, self.cached or 0
        if not state:
            return [(long, ""), (of, ""), (of, "")]
        word = f"{100 * cached // self.tokens}% warm" if state == "partly" else state
        told = f"next turn {word}: {cached:,} of {self.tokens:,} tokens cached"
        return [
            (long, told),
            (f"{_gauge(share)} {of} {percent}", f"next turn {word}"),
            (f"{of} {percent}", word),
            (of, word),
            (of, ""),
        ]

    @property
    def state(self) -> str:
        """Of the next turn: "warm", "cold", "partly" or "", where there is nothing to be warm."""
        if not self.tokens or self.cached is None:
            return ""
        # The last token is always computed: what comes out of it is what the cache has not.
        if self.cached >= self.tokens - 1:
            return "warm"
        return "partly" if self.cached else "cold"


@runtime_checkable
class MayBeLost(Protocol):
    """A client that knows whether anybody would answer now."""

    @property
    def is_lost(self) -> bool:
        """Whether its server is lost, as far as is known."""


async def warmth(
    client: ChatClient, conversation: str | None, last: Warmth | None = None
) -> Warmth:
    """How warm the conversation is now; where that cannot be told, `last`, if it is of this one.

    Waits for a model that is being loaded. For a server that is lost whoever needs it waits: this
    would tell of the loss once more, at every prompt.
    """
    tokens: int | None = None
    cached: int | None = None
    if conversation is None:
        tokens = 0
    elif not (isinstance(client, MayBeLost) and client.is_lost):
        with contextlib.suppress(RadixChatError):
            report = await client.inspect(conversation=conversation)
            tokens, cached = report.input_tokens, report.cached_tokens
    if tokens is None and last is not None and last.conversation == conversation:
        return last
    return Warmth(client.model_name, client.n_ctx, conversation, tokens, cached)


def _gauge(share: float) -> str:
    """Begun cells are full, so that a little is not nothing."""
    full = min(_GAUGE_CELLS, -int(-share * _GAUGE_CELLS // 1))
    return "█" * full + "░" * (_GAUGE_CELLS - full)


def _cut(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 1 else ""
