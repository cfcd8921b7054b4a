"""The message tree in SQLite: conversations, their turns, and what survives a crash.

Two conversations that share a prefix share the rows that store it (`message.py` says how), and
no message is ever overwritten: an edit, a regeneration, an undo only moves the conversation's
tip. A turn is begun and finished in one transaction each, both compare-and-swap on the tip, so
processes that share the file interleave nothing. What a killed process had begun is recovered by
the next one that looks: the user's turn and the partial answer stay, marked "interrupted".
`verify()` proves it. Knows no tokenizer, no engine and no event loop; an instance is used by one
thread at a time, a file by any number of processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlite_utils import Database
from ulid import ULID

from radixchat.engine.errors import (
    ConversationLocked,
    ConversationNotFound,
    InvalidRequest,
    StoreError,
)
from radixchat.server import rows
from radixchat.server.message import Answer, Message, NewMessage, check_text, pack_ids
from radixchat.server.owner import Owner
from radixchat.server.rows import ConversationRow, Outcome, ResponseRow
from radixchat.server.store_file import StoreFile

# A running answer changes what is stored every 0.5 s; sooner there is nothing new to see.
LOCKED_RETRY_MS = 500


class Store:
    """The conversations of one file; StoreFile says how it is opened and what may fail.

    Every method may raise StoreError, with the path and the cause.
    """

    def __init__(self, path: Path) -> None:
        self._file = StoreFile(path)
        # Resolved: a link to the file must lead to the same owners.
        self._owner = Owner(None if self._file.in_memory else path.resolve())
        self._unsaved: dict[str, Outcome] = {}  # ended here, but the disk refused to take it
        try:
            self.recover()
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
            finally:
                self._unsaved.clear()
                try:
                    self._owner.release()
                finally:
                    self._file.close()

    def create_conversation(self, *, system: str | None = None, title: str = "") -> str:
        """The id of a new conversation, at its system message if there is one."""
        check_text("the title", title)
        check_text("the system message", system or "")
        id_, now, root = f"conv_{ULID()}", time.time(), None
        with self._file.writing() as db:
            if system is not None:
                root = rows.insert_message(db, parent=None, role="system", text=system)
            row = {"id": id_, "title": title, "root": root, "tip": root, "used": 0}
            db.table("conversation").insert(row | {"created_at": now, "updated_at": now})
        return id_

    def conversation(self, conversation: str) -> ConversationRow:
        """That conversation, by its full id; raises ConversationNotFound."""
        with self._file.reading() as db:
            return rows.find_conversation(db, conversation)

    def resolve(self, id_or_prefix: str) -> str:
        """The full id that starts so: at least 4 characters, with or without "conv_" before them.

        Raises ConversationNotFound where none or several do, or it is too short to tell.
        """
        prefix = id_or_prefix.strip().removeprefix("conv_").upper()
        if len(prefix) < 4:
            raise ConversationNotFound(
                f"{id_or_prefix!r} is too short: give 4 characters of the id or more"
            )
        # An id's characters are digits and capitals, so that a range finds exactly a prefix.
        matching = "SELECT id FROM conversation WHERE id BETWEEN :from AND :to ORDER BY id LIMIT 4"
        found: list[dict[str, Any]] = []
        if prefix.isascii() and prefix.isalnum():
            first = f"conv_{prefix}"
            with self._file.reading() as db:
                found = rows.select(db, matching, **{"from": first, "to": first + "~"})
        if not found:
            raise ConversationNotFound(f"no conversation's id starts with {id_or_prefix!r}")
        if len(found) > 1:
            some = ", ".join(row["id"] for row in found[:3]) + (", …" if len(found) > 3 else "")
            raise ConversationNotFound(f"{id_or_prefix!r} is ambiguous: {some}")
        return str(found[0]["id"])

    def latest(self) -> str | None:
        """The conversation in which a turn was last begun or finished; None if there is none."""
        last = "SELECT id FROM conversation WHERE used > 0 ORDER BY used DESC LIMIT 1"
        with self._file.reading() as db:
            return next((str(row["id"]) for row in rows.select(db, last)), None)

    def path(self, message: str | None) -> list[Message]:
        """The messages from the root to that one, both included; of None, none.

        Raises StoreError where the file does not have it with all its ancestors.
        """
        if message is None:
            return []
        with self._file.reading() as db:
            messages = rows.find_path(db, message)
        if not messages or messages[0].parent is not None:
            raise StoreError(f"{self._file.path} has no whole path to message {message!r}")
        return messages

    def move_tip(self, conversation: str, *, expected: str | None, new: str | None) -> None:
        """Make `new` the last message: an undo, or a return to another branch.

        Raises ConversationLocked where a turn is running or the tip is not `expected`;
        InvalidRequest where `new` is not a message of this conversation.
        """
        self.settle(conversation)
        with self._file.writing() as db:
            row = self._require_tip(db, conversation, expected)
            self._require_own(db, row, new)
            db.table("conversation").update(conversation, {"tip": new, "updated_at": time.time()})

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
    ) -> str:
        """Store the user's turn and that it is being answered, in one durable transaction.

        Returns the response's id. The user's message goes under `parent`; without one
        (regenerate) `parent` is the user message to answer again. The tip moves to the message
        that is answered. render_hash: which model, tokenizer and template make the ids. principal:
        for whom. Raises
        ConversationNotFound; ConversationLocked where another turn of the conversation is running
        or the tip is not `expected_tip`; InvalidRequest where `parent` is not a message of this
        conversation, the text is not valid Unicode, or an id is out of range.
        """
        if user is not None:
            check_text("the message", user.text)
        self.settle(conversation)
        with self._file.explained():
            owner = self._owner.claim()
        id_, now = f"resp_{ULID()}", time.time()
        with self._file.writing() as db:
            row = self._require_tip(db, conversation, expected_tip)
            question = self._question(db, row, parent, user, render_hash)
            response = {
                "id": id_,
                "conversation": conversation,
                "question": question,
                "tip_before": row.tip if user is None else None,
                "status": rows.IN_PROGRESS,
                "owner": owner,
                "options": json.dumps(dict(options)),
                "render_hash": render_hash,
                "principal": principal,
                "text": "",
                "token_ids": b"",
                "created_at": now,
                "updated_at": now,
            }
            db.table("response").insert(response)
            db.table("conversation").update(conversation, {"tip": question, "updated_at": now})
            rows.mark_used(db, conversation)
        return id_

    def response(self, response: str) -> ResponseRow:
        """That response; raises InvalidRequest where there is none."""
        with self._file.reading() as db:
            return rows.find_response(db, response)

    def earlier_responses(self, response: ResponseRow, answer: str | None) -> list[ResponseRow]:
        """What a response may be compared with, the later first: at most two.

        The last one of its conversation before it, and the last that made the message `answer`.
        Only such as have an answer and did not fail.
        """
        with self._file.reading() as db:
            return rows.earlier_responses(db, response, answer)

    def save_partial(self, response: str, answer: Answer) -> None:
        """Keep what is generated so far; also the sign that its process lives.

        Does nothing once the response has ended.
        """
        check_text("the answer", answer.text)
        values = [answer.text, pack_ids(answer.token_ids), time.time(), response]
        save = "UPDATE response SET text = ?, token_ids = ?, updated_at = ? WHERE id = ?"
        with self._file.writing() as db:
            db.execute(f"{save} AND {rows.RUNNING}", values)

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
                row = rows.find_response(db, response)
                if row.status == rows.IN_PROGRESS:
                    answer, as_given = rows.end_response(db, row, outcome), True
                    rows.mark_used(db, row.conversation)
                else:
                    answer, as_given = row.answer, rows.has_ended_so(db, row, outcome)
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

    def recover(self) -> list[str]:
        """End the responses whose process is gone, as incomplete/interrupted; their ids.

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
                    rows.end_response(db, row, self._unsaved.get(row.id, rows.INTERRUPTED))
        self._unsaved.clear()
        return [row.id for row in abandoned]

    def _abandoned(self, db: Database) -> list[ResponseRow]:
        return [
            row
            for row in rows.running_responses(db)
            if row.id in self._unsaved or not self._owner.is_alive(row.owner, row.updated_at)
        ]

    def settle(self, conversation: str) -> None:
        """End what a process that is gone has left running in the conversation.

        Before its tip is read: a recovered answer moves it. In a transaction of its own, which
        stays when what the caller does next is refused.
        """
        with self._file.reading() as db:
            busy = rows.running_response(db, conversation)
        if busy is not None:
            self.recover()

    def verify(self) -> list[str]:
        """What is wrong with the file, in sentences; nothing when it is sound.

        Derives every message's id again from its content, and lets SQLite check its pages and
        that every parent, tip, question and answer exists.
        """
        problems = []
        try:
            with self._file.reading() as db:
                for id_ in rows.unsound_messages(db):
                    problems.append(f"message {id_} does not match its content")
                for row in rows.select(db, "PRAGMA integrity_check"):
                    if row["integrity_check"] != "ok":
                        problems.append(f"integrity check: {row['integrity_check']}")
                for row in rows.select(db, "PRAGMA foreign_key_check"):
                    problems.append(f"{row['table']} row {row['rowid']} refers to nothing")
        except StoreError as error:
            problems.append(str(error))
        return problems

    def _require_tip(
        self, db: Database, conversation: str, expected: str | None
    ) -> ConversationRow:
        row = rows.find_conversation(db, conversation)
        running = rows.running_response(db, conversation)
        if running is not None:
            raise ConversationLocked(
                f"conversation {conversation} is being answered already ({running})",
                LOCKED_RETRY_MS,
            )
        if row.tip != expected:
            raise ConversationLocked(
                f"conversation {conversation} has moved on from {expected} to {row.tip}: "
                "read it again",
                retry_after_ms=0,
            )
        return row

    def _require_own(self, db: Database, row: ConversationRow, message: str | None) -> str | None:
        """The role of a message of that conversation; None stands before its first message."""
        if message is not None:
            return rows.find_role(db, row.id, message)
        if row.system is not None:
            raise InvalidRequest(f"conversation {row.id} begins with its system message")
        return None

    def _question(
        self,
        db: Database,
        row: ConversationRow,
        parent: str | None,
        user: NewMessage | None,
        render_hash: str,
    ) -> str:
        """The message to answer: the user's new one under `parent`, or `parent` itself."""
        if user is None:
            if parent is None or self._require_own(db, row, parent) != "user":
                raise InvalidRequest(f"message {parent!r} is not a user's: nothing to answer")
            return parent
        if parent != row.tip:  # at the tip there is nothing to look up
            self._require_own(db, row, parent)
        return rows.insert_message(
            db,
            parent=parent,
            role="user",
            text=user.text,
            token_ids=user.token_ids,
            absolute=user.absolute,
            render_hash=render_hash,
            left_out=user.left_out,
        )
