"""The responses of one file: how they begin, are kept while they run, and end.

Knows which process runs what. A response that a killed process had begun is recovered by the next
one that looks: the user's turn and the partial answer stay, marked "interrupted". What the disk
refuses to take of an end is kept and tried again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlite_utils import Database

from radixchat.engine.errors import InvalidRequest, StoreError
from radixchat.server import rows, rows_conversation, rows_response, store_removal
from radixchat.server.message import Answer, NewMessage, check_text, pack_ids
from radixchat.server.owner import Owner
from radixchat.server.rows import (
    NO_METADATA,
    BegunResponse,
    ForgottenPath,
    Outcome,
    ResponseRow,
)
from radixchat.server.store_conversation import check_metadata
from radixchat.server.store_file import StoreFile
from radixchat.server.store_removal import Removed, Unkept
from radixchat.server.store_turn import NewResponse, begin, end, reopen

# So long somebody may still be about to use what he has made and not used.
UNKEPT_SECONDS = 24 * 3600.0


class ResponseStore:
    """An open file with its responses; StoreFile says how it is opened and what may fail."""

    def __init__(self, path: Path) -> None:
        self._file = StoreFile(path)
        # Resolved: a link to the file must lead to the same owners.
        self._owner = Owner(None if self._file.in_memory else path.resolve())
        self._unsaved: dict[str, Outcome] = {}  # ended here, but the disk refused to take it
        self._unkept: dict[str, str] = {}  # conversations that end with this process; whose
        self._removed: list[Removed] = []  # of these, what nobody was told of yet
        try:
            self.recover()
            self._sweep()
            with self._file.explained():
                self._owner.sweep()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give up what is still in progress; a second time does nothing.

        What the disk had refused is stored if it takes it now; StoreError tells that it does not.
        """
        with self._file.explained():
            try:
                if self._unsaved:
                    self.recover()
                self.delete_unkept()
            finally:
                self._unsaved.clear()
                self._unkept.clear()
                self._removed.clear()
                try:
                    self._owner.release()
                finally:
                    self._file.close()

    def delete_unkept(self) -> None:
        """Delete what was not to be kept of this process, which ends."""
        if self._unkept:
            with self._file.writing() as db:
                self._delete(db, self._unkept.items())
            self._unkept.clear()

    def take_removed(self) -> list[Removed]:
        """What was deleted because it was not to be kept, each told once.

        Whoever has computed something of it has to forget that too.
        """
        removed, self._removed = self._removed, []
        return removed

    def _delete(self, db: Database, conversations: Iterable[tuple[str, str]]) -> None:
        for id_, principal in conversations:
            paths = store_removal.delete_conversation(db, id_, principal)
            if paths:
                self._removed.append(Removed(id_, principal, paths))

    def begin_response(
        self,
        *,
        conversation: str,
        expected_tip: str | None,
        parent: str | None,
        user: NewMessage | None,
        options: Mapping[str, Any],
        render_hash: str,
        principal: str,
        previous_response: str | None = None,
        instructions: str | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        event: tuple[str, str] | None = None,
        added: Sequence[tuple[str, str]] = (),
    ) -> BegunResponse:
        """Store the user's turn and that it is being answered, in one durable transaction.

        The user's message goes under `parent`; without one (regenerate) `parent` is the user
        message to answer again, or any message where the options say "generate": False. The tip
        moves to the message that is answered. render_hash: which model, tokenizer and template
        make the ids. added: (role, text) messages that join the history before, as `graft` adds
        them. event: the client's name for what it asks, and a digest of that; the same
        again within 24 hours is the same response.

        Raises ConversationNotFound; ConversationLocked where another turn of the conversation is
        running or the tip is not `expected_tip`; IdempotencyConflict; InvalidRequest where
        `parent` is not a message of the principal under the conversation's system message, the
        text is not valid Unicode, or an id is out of range.
        """
        if user is not None:
            check_text("the message", user.text)
        check_text("the instructions", instructions or "")
        check_metadata(metadata)
        self.settle(conversation)
        with self._file.explained():
            owner = self._owner.claim()
        with self._file.writing() as db:
            return begin(
                db,
                NewResponse(
                    conversation=conversation,
                    principal=principal,
                    owner=owner,
                    expected_tip=expected_tip,
                    added=added,
                    parent=parent,
                    user=user,
                    options=options,
                    render_hash=render_hash,
                    previous_response=previous_response,
                    instructions=instructions,
                    metadata=metadata,
                    event=event,
                ),
            )

    def begun_by(self, event_id: str, digest: str, *, principal: str) -> BegunResponse | None:
        """What that event has begun within 24 hours; raises IdempotencyConflict."""
        with self._file.reading() as db:
            return rows_response.find_begun(db, event_id, digest, principal)

    def response(self, response: str, *, principal: str) -> ResponseRow:
        """That response; raises ResponseNotFound."""
        with self._file.reading() as db:
            return rows_response.find_response(db, response, principal)

    def responses_of(self, conversation: str, *, principal: str) -> list[ResponseRow]:
        """The conversation's responses as they were begun; raises ConversationNotFound."""
        with self._file.reading() as db:
            rows_conversation.find_conversation(db, conversation, principal)
            return rows_response.find_responses(db, conversation)

    def earlier_responses(self, response: ResponseRow, answer: str | None) -> list[ResponseRow]:
        """What a response may be compared with, the later first: at most two.

        The last one of its conversation before it, and the last that made the message `answer`.
        Only such as have an answer and did not fail.
        """
        with self._file.reading() as db:
            return rows_response.earlier_responses(db, response, answer)

    def save_partial(self, response: str, answer: Answer, sequence: int = 0) -> None:
        """Keep what is generated so far; also the sign that its process lives.

        sequence: a number of its log, not below any that was given out. Does nothing once the
        response has ended.
        """
        check_text("the answer", answer.text)
        values = [answer.text, pack_ids(answer.token_ids), sequence, time.time(), response]
        save = "UPDATE response SET text = ?, token_ids = ?, sequence = ?, updated_at = ?"
        with self._file.writing() as db:
            db.execute(f"{save} WHERE id = ? AND {rows.RUNNING}", values)

    def finish_response(self, response: str, outcome: Outcome) -> str | None:
        """Store the answer and how the response ended, in one transaction; the answer's id.

        The answer's status is "complete", "interrupted" or "error" as the response's is
        "completed", "incomplete" or "failed". Where nothing was generated there is no answer
        (None), unless "completed". The tip moves to the answer if it still is at the message
        answered. A second, identical end changes nothing.

        Raises StoreError where the disk does not take it: then the store keeps the outcome, and
        tries again before the conversation's next turn and when it is closed. Also where another
        process has taken the response over and ended it otherwise. Raises InvalidRequest for an
        answer that cannot be stored: then the response has "failed" with what was saved of it.
        """
        assert outcome.status in rows.MESSAGE_STATUS, f"no response ends as {outcome.status!r}"
        answer = outcome.answer or Answer("", ())
        try:
            check_text("the answer", answer.text)
            pack_ids(answer.token_ids)
        except InvalidRequest as refusal:
            self._end(response, Outcome("failed", error=str(refusal)))
            raise
        return self._end(response, outcome)

    def _end(self, response: str, outcome: Outcome) -> str | None:
        try:
            with self._file.writing() as db:
                row = rows_response.find_response(db, response)
                if row.status == rows.IN_PROGRESS:
                    answer, as_given = end(db, row, outcome), True
                    rows_conversation.mark_used(db, row.conversation)
                else:
                    answer, as_given = row.answer, rows_response.has_ended_so(db, row, outcome)
        except StoreError:
            self._unsaved[response] = outcome
            raise
        self._unsaved.pop(response, None)
        if not as_given:
            raise StoreError(
                f"{self._file.path}: another process has taken over response {response} and "
                f"stored it as {row.status!r}; what was generated since is not stored"
            )
        return answer

    def reopen_response(self, response: str, *, principal: str) -> ResponseRow:
        """Let a response that its server's end cut short run on, as this process'; it is running.

        Its answer so far is what it has `saved` again, and no message; the tip returns to the
        question where nothing was said since. Raises ResponseNotFound; InvalidRequest where it did
        not end so; ConversationLocked while it, or another one of its conversation, is running.
        """
        self.recover()
        with self._file.explained():
            owner = self._owner.claim()
        with self._file.writing() as db:
            return reopen(db, rows_response.find_response(db, response, principal), owner)

    def delete_response(self, response: str, *, principal: str) -> list[ForgottenPath]:
        """Delete a response, and its conversation where that was made for it and is not listed.

        What a conversation's path shows stays. Returns the exact tokens that nobody else of the
        principal has now, path by path. Raises ResponseNotFound; ConversationLocked while it runs.
        """
        self.recover()
        with self._file.writing() as db:
            row = rows_response.find_response(db, response, principal)
            conversation = rows_conversation.find_conversation(db, row.conversation, principal)
            return store_removal.delete_response(db, row, conversation)

    def output_tokens_since(self, seconds: float) -> dict[str, int]:
        """The tokens of the responses that ended since then, by principal."""
        with self._file.reading() as db:
            return rows_response.output_tokens_since(db, seconds)

    def recover(self) -> list[str]:
        """End the responses whose process is gone, as incomplete/server_shutdown; their ids.

        What such a process had saved becomes an "interrupted" answer, and the tip moves there.
        Also stores what the disk had refused of this process' own.
        """
        with self._file.reading() as db:
            abandoned = self._abandoned(db)
        if abandoned:
            with self._file.writing() as db:
                # Another look: what another process has ended meanwhile stays as it left it.
                abandoned = self._abandoned(db)
                for row in abandoned:
                    end(db, row, self._unsaved.get(row.id, rows.KILLED))
        self._unsaved.clear()
        return [row.id for row in abandoned]

    def _abandoned(self, db: Database) -> list[ResponseRow]:
        return [
            row
            for row in rows_response.running_responses(db)
            if row.id in self._unsaved or not self._owner.is_alive(row.owner, row.updated_at)
        ]

    def _sweep(self) -> None:
        """Delete what was not to be kept, of processes that are gone.

        And of more than a day ago what was made for a response that never began.
        """
        with self._file.reading() as db:
            left_over = [row for row in store_removal.find_unkept(db) if not self._needs(row)]
        if left_over:
            with self._file.writing() as db:
                self._delete(db, [(row.id, row.principal) for row in left_over])

    def _needs(self, row: Unkept) -> bool:
        now = time.time()
        is_recent = abs(now - row.updated_at) < UNKEPT_SECONDS
        if row.owner is None:
            return is_recent
        # Where an owner is known by its heartbeat only, one that runs nothing has none.
        return self._owner.is_alive(row.owner, now if is_recent else row.updated_at)

    def running_siblings(self, conversation: str) -> list[str]:
        """The responses that run beside those of a conversation, and join it at their end."""
        with self._file.reading() as db:
            return rows_response.running_siblings(db, conversation)

    def settle(self, conversation: str) -> None:
        """End what a process that is gone has left running in the conversation.

        Before its tip is read: a recovered answer moves it. In a transaction of its own, which
        stays when what the caller does next is refused.
        """
        with self._file.reading() as db:
            busy = rows_response.running_response(db, conversation)
        if busy is not None:
            self.recover()
