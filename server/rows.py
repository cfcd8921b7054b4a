"""The store's rows as values. `rows_*.py` have the statements that read and write one thing each.

Knows the schema's names; knows no transaction, no owner, and not when a change is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from radixchat.server.heading import heading
from radixchat.server.message import Answer
from radixchat.server.views import ConversationView

IN_PROGRESS = "in_progress"

# Spelt out, so that SQLite uses the index that has only these rows.
RUNNING = f"status = '{IN_PROGRESS}'"

# A message's status by that of the response that made it.
MESSAGE_STATUS = {"completed": "complete", "incomplete": "interrupted", "failed": "error"}

NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation: its last message `tip` (None: nothing yet), its system message's text.

    listed: its owner sees it in lists. kept: it outlives the process that made it.
    updated_at: seconds since the epoch of the last turn begun or finished, or of an undo.
    num_turns: user messages on the path. running: the id of the response in progress. opening: how
    the first user message begins.
    """

    id: str
    principal: str
    title: str
    tip: str | None
    system: str | None
    listed: bool
    kept: bool
    metadata: dict[str, str]
    created_at: float
    updated_at: float
    num_turns: int
    running: str | None
    opening: str

    @property
    def heading(self) -> str:
        """What it is called in a list, on one line; "": it has neither title nor message."""
        return heading(self.title, self.opening)

    def view(self) -> ConversationView:
        """What its owner sees of it."""
        return ConversationView(
            id=self.id,
            title=self.title,
            system=self.system,
            tip=self.tip,
            created_at=self.created_at,
            updated_at=self.updated_at,
            num_turns=self.num_turns,
            running=self.running,
            metadata=self.metadata,
            opening=self.opening,
        )


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One turn of a conversation: the message `question`, a user's, and the `answer` to it.

    status: "in_progress", "completed", "incomplete" or "failed". answer: None while in progress,
    and where nothing was generated. tip_before: of a regeneration, where the tip returns if
    nothing comes of it. owner: the process that runs it. principal: for whom. saved: the answer so
    far, while in progress; sequence: the number in its log that was saved with it, or last.
    previous_response: what it goes on from, if that was said; it may be deleted. updated_at: the
    last sign of life while in progress.
    """

    id: str
    conversation: str
    question: str
    answer: str | None
    tip_before: str | None
    status: str
    reason: str | None
    error: str | None
    owner: str
    principal: str
    options: dict[str, Any]
    render_hash: str
    saved: Answer
    sequence: int
    usage: dict[str, Any]
    timings: dict[str, Any]
    metadata: dict[str, str]
    previous_response: str | None
    instructions: str | None
    created_at: float
    updated_at: float

    @property
    def generates(self) -> bool:
        """Whether an answer is asked for, and not only that the prompt is cached."""
        return self.options.get("generate") is not False


@dataclass(frozen=True, slots=True)
class BegunResponse:
    """A response that was begun, or had been by the same event: `replayed`.

    question: the message that is answered.
    """

    id: str
    replayed: bool
    conversation: str
    question: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a response ended: "completed", "incomplete" or "failed", for which reason or error.

    answer: what it had generated; None: what was saved of it last, whatever that is. sequence: the
    number of the first event that closes its log; None: the one saved last stays.
    """

    status: str
    reason: str | None = None
    answer: Answer | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    sequence: int | None = None


# Of a response whose process is gone.
KILLED = Outcome("incomplete", "server_shutdown")


@dataclass(frozen=True, slots=True)
class ForgottenPath:
    """The exact ids of a path that was deleted; those before `start` somebody still has."""

    token_ids: tuple[int, ...]
    start: int


def select(db: Database, sql: str, **values: object) -> list[dict[str, Any]]:
    """All rows at once: a statement left half read would hold its snapshot of the file.

    None where a value is no valid Unicode: no id and no text that is stored is like that.
    """
    try:
        return list(db.query(sql, values))
    except UnicodeEncodeError:
        return []
