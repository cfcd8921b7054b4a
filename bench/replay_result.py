"""What a replay found out: the trace's facts, and one result for each cache at each size.

Values only: they know neither the caches that were run nor how they are shown. Every rate is a
fraction of the trace's input tokens; what does not exist for a cache is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

LAST_TURN = 10
"""Turns from this one on are counted together."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """One look at the whole trace.

    unit_tokens: tokens in what is compared, the block of a block-hash trace, else 1.
    distinct_tokens: what an infinite cache holds at the end, prompts and kept replies.
    keeps_replies: whether any reply was kept. longest_tokens: the longest prompt. conversations: 0
    where the trace tells of none. quiet_lines: chats that ask for nothing.
    taking_turns: how many chats took turns, where that had to be decided; else None.
    """

    name: str
    format: str
    unit_tokens: int
    requests: int
    tokens: int
    distinct_tokens: int
    keeps_replies: bool
    longest_tokens: int
    conversations: int
    namespaces: int
    quiet_lines: int
    taking_turns: int | None


@dataclass(frozen=True, slots=True)
class TurnRate:
    """The requests of one turn; `turn` LAST_TURN stands for that turn and all later ones."""

    turn: int
    requests: int
    tokens: int
    hit_rate: float


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One cache of one size, with what the bounds reach at that size.

    page_size and capacity_tokens in tokens, no limit is None. reference_lru: an independent LRU.
    optimum: the best that any policy could have done, knowing the future. The times are means, per
    match, per insert, per evicted page. index_bytes_per_token: of the tokens cached at the end.
    too_long: requests that could never fit; they count as missed. roomy_tokens: a capacity into
    which each would fit, with its reply, in whole pages. ignores: what the simulation of another
    engine leaves out; empty for our own cache, which is the real one.
    """

    engine: str
    policy: str | None
    page_size: int
    capacity_tokens: int | None
    hit_rate: float
    reference_lru: float
    optimum: float
    infinite: float
    evicted_tokens: int
    us_per_match: float | None
    us_per_insert: float | None
    us_per_evicted_page: float | None
    index_bytes_per_token: float | None
    per_turn: tuple[TurnRate, ...] | None
    too_long: int
    roomy_tokens: int
    ignores: str

    @property
    def name(self) -> str:
        """The engine, with its policy where it has one."""
        return f"{self.engine} {self.policy}" if self.policy else self.engine


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A whole replay. arms: by capacity, ascending, then as they were asked for.

    chosen_capacities: whether somebody named them; else they are shares of the distinct tokens.
    command: the command line that asked for it, without the folders of files.
    """

    facts: TraceFacts
    infinite: float
    arms: tuple[ArmResult, ...]
    chosen_capacities: bool
    commit: str
    machine: str
    date: str
    command: str
