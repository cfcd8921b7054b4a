"""What a client asks a conversation: another turn, an edited one, another answer. Frozen values.

Standard library only. Knows no store and no prompt; `turn.py` says what follows from an ask.
"""

from __future__ import annotations

from dataclasses import dataclass

ON_BUSY = ("reject", "queue", "interrupt")


@dataclass(frozen=True, slots=True)
class InputMessage:
    """One message of a turn's input; role: "system", "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that is added.

    messages: the last is the user's, to be answered; those before it join the history as they
    are. conversation: they are added at its tip. previous_response: they follow that response's
    answer, and no tip moves: a fork. Neither: they begin a conversation that no list shows; both
    is refused.

    instructions: the system message. With previous_response it is not carried over from that (the
    Responses API's rule); equal instructions keep the history's tokens, others have it computed
    anew. With a conversation it has to be the system message that this begins with; one without
    any turn takes it over.
    """

    messages: tuple[InputMessage, ...]
    conversation: str | None = None
    previous_response: str | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class EditedTurn:
    """Another text for a turn's user message, counted from 1; what followed stays in the tree."""

    conversation: str
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AnotherAnswer:
    """Another answer to a question that was answered: of a conversation's last, or a response's.

    To a response's it is a sibling, and no tip moves. One of the two.
    """

    conversation: str | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True)
class LongerAnswer:
    """To go on with a conversation's last answer, which was cut short.

    It becomes another answer that begins with that one; the short one stays in the tree.
    """

    conversation: str


@dataclass(frozen=True, slots=True)
class EventKey:
    """A client's own name for what it asks; sent again within 24 hours it is the same response."""

    event_id: str


Ask = NewTurn | EditedTurn | AnotherAnswer | LongerAnswer
