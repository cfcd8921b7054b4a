"""What an edit of a turn would cost, before it is made: `EditPrice`. Changes nothing.

Asks what the cache has of the prompt as it is, and of one with another text in the place: the
difference is what an edit takes away. Knows neither a terminal nor a cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.duration import duration
from radixchat.server.protocol import CacheReport, RadixChatError

# Hardly a message begins so: nothing of the text that is looked up is in the cache.
OTHER_TEXT = "~"


@dataclass(frozen=True, slots=True)
class EditPrice:
    """Of a user turn, counted from 1, if it gets a text as long that begins otherwise.

    tokens: to be computed before the answer's first; milliseconds: how long that is likely to take,
    None where nobody knows.
    """

    turn: int
    tokens: int
    milliseconds: float | None

    def __str__(self) -> str:
        """`editing turn 3 recomputes 1,240 tokens, about 2.1 s`."""
        tokens = f"{self.tokens:,} token{'' if self.tokens == 1 else 's'}"
        said = f"editing turn {self.turn} recomputes {tokens}"
        if self.milliseconds is None:
            return said
        return f"{said}, about {duration(self.milliseconds)}"

    @classmethod
    def of(cls, turn: int, asked: CacheReport, other: CacheReport) -> EditPrice:
        """asked: the prompt that the turn ends, as it is; other: with OTHER_TEXT instead."""
        tokens = asked.input_tokens - min(asked.cached_tokens, other.cached_tokens)
        # The more tokens a time is told for, the less of it is rounding.
        report = max(asked, other, key=_num_computed)
        milliseconds = None
        if report.computing_ms is not None and _num_computed(report) > 0:
            milliseconds = report.computing_ms / _num_computed(report) * tokens
        return cls(turn, tokens, milliseconds)


async def edit_price(client: ChatClient, conversation: str, turn: int) -> EditPrice:
    """Of that user turn, from 1. Raises RadixChatError."""
    asked = await client.inspect(conversation=conversation, turn=turn)
    other = await client.inspect(conversation=conversation, turn=turn, text=OTHER_TEXT)
    return EditPrice.of(turn, asked, other)


async def price_of_edit(client: ChatClient, conversation: str, turn: int) -> str | None:
    """In words, as `EditPrice` has them; None where it cannot be told, for whatever reason."""
    try:
        return str(await edit_price(client, conversation, turn))
    except RadixChatError:
        return None  # what asks for the edit itself tells what is wrong


def _num_computed(report: CacheReport) -> int:
    return report.input_tokens - report.cached_tokens
