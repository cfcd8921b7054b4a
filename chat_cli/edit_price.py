"""What an edit of a turn would cost, before it is made: `EditPrice`. Changes nothing.

Asks what the cache has of the prompt as it was; of this, an edit takes away everything from the
edited message on. Knows neither a terminal nor a cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.duration import duration
from radixchat.server.protocol import CacheReport, RadixChatError


@dataclass(frozen=True, slots=True)
class EditPrice:
    """Of a user turn, counted from 1, if it gets another text of the same length.

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
    def of(cls, turn: int, report: CacheReport) -> EditPrice | None:
        """report: of the prompt that answers the turn as it is; None: it tells no borders."""
        if not report.segments or report.segments[-1].message is None:
            return None
        edited = report.segments[-1].message
        start = min(part.start for part in report.segments if part.message == edited)
        tokens = report.input_tokens - min(report.cached_tokens, start)
        computed = report.input_tokens - report.cached_tokens
        milliseconds = None
        if report.computing_ms is not None and computed > 0:
            milliseconds = report.computing_ms / computed * tokens
        return cls(turn, tokens, milliseconds)


async def edit_price(client: ChatClient, conversation: str, turn: int) -> EditPrice | None:
    """Of that user turn, from 1; None: it cannot be told. Raises RadixChatError."""
    return EditPrice.of(turn, await client.inspect(conversation=conversation, turn=turn))


async def price_of_edit(client: ChatClient, conversation: str, turn: int) -> str | None:
    """In words, as `EditPrice` has them; None where it cannot be told, for whatever reason."""
    try:
        price = await edit_price(client, conversation, turn)
    except RadixChatError:
        return None  # what asks for the edit itself tells what is wrong
    return None if price is None else str(price)
