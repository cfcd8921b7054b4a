"""`NaiveChat`: the rules of the chat policy over plain lists, everything worked out each time.

Of each conversation it keeps all that was ever heard, and reads its state at a time from the
beginning; of the rates, every idle second. It scores all leaves. It knows no heap, no table and
no span. The histograms' smoothing and their shape are `return_rate.py`'s, tested on their own:
here whole seconds and returns are handed to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from radixchat.radix.node import Node
from radixchat.radix.return_rate import ReturnRates, idle_bin
from radixchat.radix.use import Signal

SHIELD, REBUILD = 120.0, 60.0
_SURENESS = {Signal.CONNECTED: 1, Signal.TYPING: 2, Signal.QUEUED: 3}
_PRESENCE = {Signal.AWAY: 1, Signal.DISCONNECTED: 2, Signal.CONNECTED: 3}
CLOSED = 8


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `begin` to `end`, in seconds, nothing changed; `idle_since`: None while it runs."""

    begin: float
    end: float
    habit: int
    idle_since: float | None
    shielded: bool


@dataclass(frozen=True, slots=True)
class Return:
    """A request at `time`, that counts as one after `idle` seconds in a habit."""

    time: float
    habit: int
    idle: float


def live(events: list[tuple[float, Signal]], now: float) -> tuple[list[Stretch], list[Return]]:
    """Read the life of one conversation up to now; the last stretch is how it is now."""
    stretches: list[Stretch] = []
    returns: list[Return] = []
    presence = turns = running = sureness = 0
    closed, idle_since, shield_end = False, None, -math.inf
    begun: tuple[float, int] | None = None  # since when it is shielded, and the habit before
    time = events[0][0]

    def habit() -> int:
        return CLOSED if closed else 2 * presence + (turns > 1)

    for when, signal in events:
        if begun is not None and shield_end <= when:
            stretches.append(Stretch(time, shield_end, habit(), idle_since, True))
            time, begun = shield_end, None
        stretches.append(Stretch(time, when, habit(), idle_since, begun is not None))
        time = when
        before = habit()
        if signal is Signal.STARTED:
            if idle_since is not None:
                seen, whose = begun or (when, before)
                returns.append(Return(when, whose, max(0.0, seen - idle_since)))
            running, idle_since, closed, presence = running + 1, None, False, 0
            begun, sureness = None, 0
        elif signal is Signal.FINISHED:
            running, turns = running - 1, turns + 1
            idle_since = when if running == 0 else idle_since
        elif signal is Signal.CLOSED:
            closed, begun = True, None
        elif signal is Signal.CONNECTED and presence not in (1, 2):
            continue  # no news
        elif _SURENESS.get(signal, 0) > (sureness if when < shield_end + SHIELD else 0):
            begun = begun or (when, before)
            sureness, shield_end = _SURENESS[signal], when + SHIELD
        presence = _PRESENCE.get(signal, presence)
    if begun is not None and shield_end <= now:
        stretches.append(Stretch(time, shield_end, habit(), idle_since, True))
        time, begun = shield_end, None
    stretches.append(Stretch(time, now, habit(), idle_since, begun is not None))
    return stretches, returns


class NaiveChat:
    """What `ChatPolicy` decides, for conversations that always have a leaf in the order."""

    def __init__(self, now: float) -> None:
        self.rebuilt_at = now
        self.events: dict[str, list[tuple[float, Signal]]] = {}
        self.leaves: list[Node] = []
        self.rates = ReturnRates([1.0] * 8 + [1e-6])

    def hear(self, conversation: str, signal: Signal, now: float) -> None:
        """A signal of a conversation; one that never asked anything is not known."""
        self.look(now)
        if conversation in self.events or signal is Signal.STARTED:
            self.events.setdefault(conversation, []).append((now, signal))

    def look(self, now: float) -> None:
        """Something is asked or heard: if a minute has gone, what it brought is learned."""
        since = self.rebuilt_at
        if now < since + REBUILD:
            return
        for events in self.events.values():
            stretches, returns = live(events, now)
            for each in stretches:
                begin = max(each.begin, since)
                if each.idle_since is not None and not each.shielded and begin < each.end:
                    self.rates.end(self.rates.begin(each.habit, each.idle_since, begin), each.end)
            for back in returns:
                if since <= back.time < now:
                    self.rates.returned(back.habit, back.idle)
        self.rates.rebuild(now)
        self.rebuilt_at = now

    def scores(self, now: float) -> dict[Node, tuple[bool, float]]:
        """Of each leaf: shielded or not, and the logarithm of the return rate."""
        current = {name: live(events, now)[0][-1] for name, events in self.events.items()}
        scores: dict[Node, tuple[bool, float]] = {}
        for leaf in self.leaves:
            number, use = idle_bin(now - leaf.use.time), leaf.use
            state = None if use.conversation is None else current.get(use.conversation)
            if use.superseded:
                scores[leaf] = False, -math.inf
            elif use.shared or state is None:
                scores[leaf] = False, self.rates.pooled[number]
            else:
                scores[leaf] = state.shielded, self.rates.scores[state.habit][number]
        return scores
