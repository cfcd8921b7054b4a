"""What a run of `bench serve` leaves: each turn, each arm's, each cell's. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.bench.serve_answer import Answer, AskFailed
from radixchat.bench.serve_load import Message, Round
from radixchat.bench.serve_site import Arm


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """To be sent. parent: the turn whose answer it follows."""

    conversation: int
    step: Round
    parent: Record | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A turn that was sent, at `sent` on the clock of the answers; answered, or failed."""

    turn: Turn
    sent: float
    answer: Answer | None
    error: AskFailed | None = None

    def followed_by(self, step: Round, message: Message) -> Turn:
        """What is said next."""
        assert self.answer is not None
        said = Message("assistant", self.answer.text)
        return Turn(self.turn.conversation, step, self, (*self.turn.messages, said, message))


@dataclass(frozen=True, slots=True, eq=False)
class ArmRun:
    """records: in the order in which they were sent. busy: seconds in which it was being asked."""

    arm: Arm
    records: tuple[Record, ...]
    busy: float


@dataclass(frozen=True, slots=True, eq=False)
class CellRun:
    """All arms, with so many requests at a time."""

    concurrency: int
    arms: tuple[ArmRun, ...]
