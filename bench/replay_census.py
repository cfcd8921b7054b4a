"""`Census`: what one pass over a trace learns of it, and what rates are computed from.

Keeps a few bytes for each request, none of its tokens. Knows no cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.replay_result import LAST_TURN, TraceFacts, TurnRate
from radixchat.bench.trace import Trace
from radixchat.bench.trace_item import TraceItem, TraceRequest


class Census:
    """The requests of a trace, counted while somebody else reads them."""

    def __init__(self, unit_tokens: int) -> None:
        """unit_tokens: of the trace, see `Trace`."""
        self._unit_tokens = unit_tokens
        self._num_tokens = array("q")
        self._turns = array("q")
        self._conversations: set[str] = set()
        self._namespaces: set[bytes] = set()
        self._longest_path = 0
        self._keeps_replies = False

    def counted(self, items: Iterable[TraceItem]) -> Iterator[TraceItem]:
        """The same items, each counted on its way."""
        for item in items:
            if isinstance(item, TraceRequest):
                self._num_tokens.append(item.num_tokens)
                self._turns.append(min(item.turn, LAST_TURN))
                self._namespaces.add(item.namespace)
                self._longest_path = max(self._longest_path, len(item.prompt) + len(item.output))
                # The last unit of a reply is never computed, so that one alone leaves nothing.
                self._keeps_replies |= len(item.output) > 1
                if item.conversation is not None:
                    self._conversations.add(item.conversation)
            yield item

    def __len__(self) -> int:
        """Requests."""
        return len(self._num_tokens)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(self._num_tokens)

    def facts(self, trace: Trace, distinct_units: int, taking_turns: int | None) -> TraceFacts:
        """The trace in numbers, without its folder; at least one request was counted."""
        return TraceFacts(
            name=PurePath(trace.name).name,
            format=trace.format,
            unit_tokens=self._unit_tokens,
            requests=len(self),
            tokens=self.tokens,
            distinct_tokens=distinct_units * self._unit_tokens,
            keeps_replies=self._keeps_replies,
            longest_tokens=max(self._num_tokens),
            conversations=len(self._conversations),
            namespaces=len(self._namespaces),
            quiet_lines=trace.quiet_lines,
            taking_turns=taking_turns,
        )

    def roomy_units(self, page_size: int) -> int:
        """What the largest request needs, prompt and reply, in whole pages of `page_size` units."""
        return -(-self._longest_path // page_size) * page_size

    def unlimited_units(self, distinct_units: int, page_size: int) -> int:
        """Units that no cache of this trace needs more than, whatever its pages.

        A path of its own may begin and end in mid-page, and the request that runs holds what it
        may turn out not to need.
        """
        return distinct_units + (2 * len(self) + 2) * page_size + self._longest_path

    def hit_rate(self, cached_units: NDArray[np.int64]) -> float:
        """Cached tokens as a fraction of all. cached_units: int64 [requests]."""
        return int(self._cached_tokens(cached_units).sum()) / self.tokens

    def per_turn(self, cached_units: NDArray[np.int64]) -> tuple[TurnRate, ...] | None:
        """The rate of each turn, LAST_TURN and later together; None where no turn is known."""
        cached = self._cached_tokens(cached_units)
        num_tokens = np.asarray(self._num_tokens, np.int64)
        turns = np.asarray(self._turns, np.int64)
        rates = []
        for turn in range(1, LAST_TURN + 1):
            chosen = turns == turn
            tokens = int(num_tokens[chosen].sum())
            if tokens:
                rate = int(cached[chosen].sum()) / tokens
                rates.append(TurnRate(turn, int(chosen.sum()), tokens, rate))
        return tuple(rates) or None

    def _cached_tokens(self, cached_units: NDArray[np.int64]) -> NDArray[np.int64]:
        """A block may be partly filled, and a prompt's last token is always computed."""
        assert len(cached_units) == len(self), "the trace has changed between two passes"
        tokens = cached_units * self._unit_tokens
        return np.minimum(tokens, np.asarray(self._num_tokens, np.int64) - 1)
