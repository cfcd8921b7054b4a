"""What people do in a chat: every distribution of the generated workload, with its parameters.

Owns the numbers and how they are drawn; knows no token and no time of day but `Habits.at`. None
of them was chosen for a policy. They are guesses of how people use a chat window, and follow
published traffic where it tells (KVCache in the Wild, ATC'25: half of the conversations have one
turn, 80 % of the reuse comes within ten minutes, hours are the tail); people in a chat window go
on a little longer, so 40 % have one turn here. What a client signals is noisy: tabs are hidden by
people who come back at once, connections break by themselves, drafts are thrown away, a closed
conversation is opened again, and many never close anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Positive and skewed: half of the draws are below `median`, the mean is
    median * exp(sigma² / 2).
    """

    median: float
    sigma: float

    def draw(self, random: np.random.Generator) -> float:
        """One value."""
        return float(random.lognormal(np.log(self.median), self.sigma))


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long what is written is, in tokens, and how far a conversation goes.

    user, reply: one message each, cut to [2, MAX_MESSAGE]. leave_first, leave_later: chance that
    nobody comes back after the answer to the first turn, and to each later one; their difference
    is why a conversation in its second turn is the better one to keep.
    """

    user: LogNormal
    reply: LogNormal
    leave_first: float
    leave_later: float


MAX_TURNS = 12
MAX_MESSAGE = 4096
LENGTHS = {
    # Short questions, answers of a paragraph or two: means 82 and 270 tokens.
    "chat": Lengths(
        user=LogNormal(45, 1.1), reply=LogNormal(180, 0.9), leave_first=0.40, leave_later=0.18
    ),
    # As in ShareGPT: much longer texts pasted now and then, longer answers, more turns.
    "sharegpt": Lengths(
        LogNormal(40, 1.6), LogNormal(220, 1.0), leave_first=0.28, leave_later=0.12
    ),
}

ARRIVALS_PER_HOUR = 400.0  # a Poisson process; 2,000 conversations begin within five hours
NUM_SYSTEM_PROMPTS = 8  # assistants, each with a system prompt that all its conversations share
SYSTEM_PROMPT_TOKENS = LogNormal(400, 0.6)
SYSTEM_PROMPT_ZIPF = 1.2  # the k-th assistant is chosen with weight k ** -1.2

# Seconds.
TOKENS_PER_SECOND = 60.0  # of an answer: nobody reads on before it is there
FIRST_WORDS = LogNormal(15, 0.8)  # from opening the chat to its first message
THINKING = LogNormal(60, 1.2)  # reading and writing; one in four takes more than 135 s
BREAK = LogNormal(0.5 * HOUR, 1.0)  # something else came first: one in four takes over an hour
BREAK_SHARE = 0.2  # of the returns; with THINKING's tail one return in five takes ten minutes
DISLIKE = LogNormal(15, 0.8)  # until an answer is asked for again
CORRECTION = LogNormal(40, 0.9)  # until a message is edited
RECONNECT_LEAD = LogNormal(25, 1.0)  # from opening the window again to the first key
DEPARTURE = LogNormal(60, 1.2)  # from an answer to hiding or leaving the window
GLANCE = LogNormal(45, 0.8)  # a look at the window that leads to no message
LATE_CLOSE = LogNormal(1.0 * HOUR, 1.0)  # tidying up: from leaving to closing
ABANDONED = LogNormal(2.0 * HOUR, 0.8)  # a window left open until its machine sleeps

# What is asked for after an answer, when somebody is still there; else it is the next turn.
REGENERATE_SHARE = 0.08
EDIT_SHARE = 0.05
EDIT_LAST_SHARE = 0.7  # of the edits; the others choose any earlier message
EDIT_KEEPS_HEAD = 0.5  # of the edits change the message from its middle on
SWITCH_BACK_SHARE = 0.1  # of the turns after a regenerate or an edit go on from the old branch

TYPING_SIGNALLED = 0.8  # of the turns: a pasted or dictated message is not typed
TYPING_SPEED = LogNormal(1.0, 0.4)  # tokens a second: 45 words a minute
MAX_TYPED = 120  # tokens; what a message has beyond was pasted
DRAFT_DROPPED = 0.08  # of the waits contain typing that leads to nothing
GLANCE_SHARE = 0.15  # of the absences contain a look at the window that leads to nothing
CONNECTION_BREAKS = 0.03  # of the waits contain a broken connection that comes back at once
BROKEN_SECONDS = LogNormal(4, 0.8)


class Leaving(StrEnum):
    """What somebody does with the window while not there."""

    STAYS = "stays"  # leaves it open and in sight
    HIDES = "hides"  # a tab in the background
    DISCONNECTS = "disconnects"  # leaves the page, closes the lid
    CLOSES = "closes"  # says that this conversation is over


@dataclass(frozen=True, slots=True)
class Departures:
    """The share of each way to leave; they sum to 1."""

    stays: float
    hides: float
    disconnects: float
    closes: float

    def draw(self, random: np.random.Generator) -> Leaving:
        """One of the four."""
        shares = (self.stays, self.hides, self.disconnects, self.closes)
        return list(Leaving)[int(random.choice(4, p=shares))]


# By how long somebody will be away before coming back, and for those who never do. A closed
# conversation is now and then opened again; of those that are over half are closed in the end.
SHORT, MEDIUM = 120.0, 1200.0
SHORT_WAIT = Departures(stays=0.84, hides=0.14, disconnects=0.02, closes=0.00)
MEDIUM_WAIT = Departures(stays=0.52, hides=0.40, disconnects=0.08, closes=0.00)
LONG_WAIT = Departures(stays=0.14, hides=0.38, disconnects=0.44, closes=0.04)
FOR_GOOD = Departures(stays=0.10, hides=0.15, disconnects=0.30, closes=0.45)
LATE_CLOSE_SHARE = 0.12  # of those who left for good without closing do so later: half in all
ABANDONED_SHARE = 0.6  # of the windows left open or hidden for good lose their connection


@dataclass(frozen=True, slots=True)
class Habits:
    """How likely people leave, and how long they think, at a time of the day.

    leave_first, leave_later: see `Lengths`. think_scale: factor on `THINKING`.
    """

    leave_first: float
    leave_later: float
    think_scale: float

    @staticmethod
    def at(time: float, lengths: Lengths, shift: bool) -> Habits:
        """The habits at a time in seconds; with `shift`, of every second hour the opposite:
        who would have left comes back and who would have come back leaves, ten times as slowly.
        """
        if shift and int(time // HOUR) % 2 == 1:
            return Habits(1 - lengths.leave_first, 1 - lengths.leave_later, 10.0)
        return Habits(lengths.leave_first, lengths.leave_later, 1.0)
