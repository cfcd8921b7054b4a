"""What the cache has of a conversation, told in words: /stats, /cache, /why. Knows no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.cache_picture import LEGEND, cache_picture
from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.commands import CacheCommand, ShowCache, ShowStats, ShowWhy
from radixchat.chat_cli.duration import duration
from radixchat.chat_cli.edit_price import edit_price
from radixchat.chat_cli.engine_figures import engine_figures
from radixchat.chat_cli.miss_explanation import miss_explanation
from radixchat.chat_cli.places_below import lies_below
from radixchat.server.protocol import CacheReport, ErrorInfo, InvalidRequest

MAX_PRICES = 12
"""Turns whose price is told: the first, and the last ones. Each is asked for, one by one."""
_HEADING = Style(bold=True)


class CacheCommands:
    """Performs what is asked about the cache; raises RadixChatError."""

    def __init__(self, state: ChatState) -> None:
        self._state = state

    async def perform(self, command: CacheCommand) -> ErrorInfo | None:
        """Show it; why it was refused, if it was."""
        match command:
            case ShowStats():
                await self._show_stats()
            case ShowCache():
                await self._show_cache()
            case ShowWhy():
                self._show_why()
            case _:
                assert_never(command)
        return None

    async def _show_stats(self) -> None:
        notes = self._state.notes
        groups = {"": {"conversation": self._state.conversation or "none yet"}}
        for group, figures in engine_figures(await self._state.client.stats()).items():
            groups[group] = {**groups.get(group, {}), **figures}
        width = max(len(name) for figures in groups.values() for name in figures) + 2
        for group, figures in groups.items():
            if group:
                notes.styled(Text(group, _HEADING))
            indent = "  " if group else ""
            rows = {f"{indent + name:<{width}}": value for name, value in figures.items()}
            notes.table(rows)

    async def _show_cache(self) -> None:
        conversation = self._state.require_conversation()
        await self._state.look()
        notes, client = self._state.notes, self._state.client
        report = await client.inspect(conversation=conversation, texts=True)
        for line in cache_picture(report, self._state.known, notes.width):
            notes.styled(line)
        notes.styled(Text(LEGEND))
        notes.styled(Text(totals(report, client.n_ctx)))
        num_turns = sum(message.role == "user" for message in self._state.known)
        for turn in _priced(num_turns):
            if turn is None:
                left_out = num_turns - MAX_PRICES
                notes.styled(Text(f"… {left_out:,} more turns; /edit N tells the price of one …"))
            else:
                notes.styled(Text(str(await edit_price(client, conversation, turn))))

    def _show_why(self) -> None:
        done = self._state.last
        if done is None:
            raise InvalidRequest("nothing was asked here yet, so there is nothing to explain")
        lines = miss_explanation(done, self._state.known)
        if len(lines) == 1:
            [line] = lines.values()
            self._state.notes.styled(Text(line))
        else:
            self._state.notes.table(lines)


def totals(report: CacheReport, n_ctx: int) -> str:
    """`840 of 8,192 tokens: 812 cached, 28 to compute, about 40 ms`."""
    computed = report.input_tokens - report.cached_tokens
    below = lies_below(report.segments)
    said = (
        f"{report.input_tokens:,} of {n_ctx:,} tokens: {report.cached_tokens:,} cached"
        f"{f' ({below})' if below else ''}, {computed:,} to compute"
    )
    if report.computing_ms is None or computed == 0:
        return said
    return f"{said}, about {duration(report.computing_ms)}"


def _priced(num_turns: int) -> Sequence[int | None]:
    """The turns whose price is told, from 1; None: where some are left out."""
    turns = range(1, num_turns + 1)
    if num_turns <= MAX_PRICES:
        return turns
    return [1, None, *turns[1 - MAX_PRICES :]]
