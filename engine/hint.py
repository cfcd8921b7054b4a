"""What a server tells an engine about conversations: values that travel to its thread.

Hints change what stays cached, never an answer. Knows neither thread nor index.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.radix.use import Signal

__all__ = ["Hint", "Observe", "Prefetch", "Purge", "Signal", "Supersede"]


@dataclass(frozen=True, slots=True)
class Observe:
    """News of a conversation."""

    conversation: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class Supersede:
    """A conversation has left the branch `tokens` at position `start`: an edit, another answer."""

    tokens: tuple[int, ...]
    start: int
    conversation: str
    namespace: bytes = b""


@dataclass(frozen=True, slots=True)
class Purge:
    """What a conversation had cached of the path `tokens` goes, but for what others use.

    start: the tokens before it stay, whoever uses them.
    """

    tokens: tuple[int, ...]
    conversation: str
    namespace: bytes = b""
    start: int = 0


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Somebody is about to go on with the path `tokens`: a reconnect, a conversation opened."""

    tokens: tuple[int, ...]
    namespace: bytes = b""


Hint = Observe | Supersede | Purge | Prefetch
