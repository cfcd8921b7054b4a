"""What is asked of a server under load, and what came back and when. Knows no socket.

Times are seconds of `time.perf_counter`. A piece of an answer may hold several tokens, or a part of
one: what users wait for is tokens, so the gaps are per token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from radixchat.bench.serve_load import Message

# No step of any model is as short; a server that writes several tokens at once is as quick.
TOGETHER_SECONDS = 0.001


class AskFailed(Exception):
    """A server refused, broke off or could not be reached: what it said."""


class OptionRefused(AskFailed):
    """It does not accept a request that it could not have failed for another reason."""


@dataclass(frozen=True, slots=True)
class Question:
    """One turn. messages: the whole conversation, the user's message last. after: the id of the
    response that it follows, for a server that keeps conversations. tokens: to be answered."""

    messages: tuple[Message, ...]
    after: str | None
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Of one request, as the server says; None is what it does not say."""

    prompt: int | None = None
    cached: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. pieces: when each arrived, with its text, none of them empty. finish: why it
    ended, "length" after as many tokens as were asked for. response: its id at the server."""

    text: str
    sent: float
    pieces: tuple[tuple[float, str], ...]
    ended: float
    finish: str
    usage: TokenCount
    response: str | None = None

    @property
    def ttft(self) -> float:
        """Until its first text."""
        return self.pieces[0][0] - self.sent

    def gaps(self, tokens: int) -> list[float]:
        """Seconds between its tokens, one fewer than there are.

        Tokens that came together, in one piece or in several at once, are so many equal gaps. What
        a piece has is its share of the characters, where pieces and tokens are not as many.
        """
        gaps: list[float] = []
        arrived = waited = 0.0
        known = 0
        for moment, count in self._arrivals(tokens):
            waited += moment - arrived if known else 0.0
            arrived = moment
            if count > known:
                new = count - known if known else count - 1
                gaps += [waited / new] * new if new else []
                known, waited = count, 0.0
        if gaps:
            gaps[-1] += waited
        return gaps

    def _arrivals(self, tokens: int) -> Iterator[tuple[float, int]]:
        """When something came, and how many tokens there were then; the first has one at least."""
        is_even = len(self.pieces) == tokens
        sizes = list(accumulate(len(text) for _, text in self.pieces))
        began, last = self.pieces[0][0], 0
        for index, (moment, _) in enumerate(self.pieces):
            if moment - began > TOGETHER_SECONDS:
                yield began, last
                began = moment
            share = round(sizes[index] / sizes[-1] * tokens)
            last = max(1, index + 1 if is_even else share)
        yield began, last


class Client(Protocol):
    """One user's connection to a server."""

    async def ask(self, question: Question) -> Answer:
        """Send it and read the answer to its end. Raises AskFailed."""

    async def close(self) -> None:
        """Hang up."""


def token_count(usage: Mapping[str, object], names: Sequence[str]) -> TokenCount:
    """From an object as OpenAI's: `names` are its keys for input and output, in this order."""
    asked, answered = names
    details = usage.get(f"{asked}_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    numbers = (usage.get(asked), cached, usage.get(answered))
    return TokenCount(*(each if isinstance(each, int) else None for each in numbers))
