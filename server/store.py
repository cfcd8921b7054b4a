"""The message tree in SQLite: conversations, their turns, and what survives a crash.

Two conversations that share a prefix share the rows that store it (`message.py` says how), and
no message is ever overwritten: an edit, a regeneration, an undo only moves the conversation's
tip. A turn is begun and finished in one transaction each, both compare-and-swap on the tip, so
processes that share the file interleave nothing (`store_responses.py`). Everything is somebody's:
another principal's conversation, message or response is not found. `verify()` proves it all. Knows
no tokenizer, no engine and no event loop; an instance is used by one thread at a time, a file by
any number of processes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from radixchat.engine.errors import ConversationNotFound, InvalidRequest, StoreError
from radixchat.server import (
    rows_conversation,
    rows_response,
    store_conversation,
    store_removal,
)
from radixchat.server.heading import check_title
from radixchat.server.key_store import KeyStore
from radixchat.server.message import Message, check_text
from radixchat.server.rows import NO_METADATA, ConversationRow, ForgottenPath, select
from radixchat.server.rows_message import find_path
from radixchat.server.rows_tree import find_passed, find_tree
from radixchat.server.store_check import find_problems
from radixchat.server.store_conversation import check_metadata, require_idle, require_tip
from radixchat.server.store_responses import ResponseStore
from radixchat.server.store_search import search
from radixchat.server.transcript import read_json, write_json
from radixchat.server.transcript_llm import ImportedLogs, insert_chats, read_logs
from radixchat.server.transcript_llm_file import PathWithResponses, write_logs
from radixchat.server.transcript_markdown import write_markdown
from radixchat.server.views import MAX_LISTED, SearchHit, TreeMessage, check_limit


class Store(ResponseStore):
    """The conversations of one file, and their responses.

    Every method may raise StoreError, with the path and the cause.
    """

    def create_conversation(
        self,
        *,
        principal: str,
        system: str | None = None,
        title: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
        listed: bool = True,
        kept: bool = True,
        tip: str | None = None,
        sibling_of: str | None = None,
    ) -> str:
        """The id of a new conversation, at its system message if there is one.

        tip: a message of the principal, of any conversation, to go on from: a fork. With `system`
        too, the path to it is copied, as text only, under that one. kept: False for one that is
        to be deleted with this process, if not sooner. sibling_of: its one response joins that
        conversation when it has ended, and this one is gone. Raises InvalidRequest for an unknown
        message, a title that is too long, and text that is not valid Unicode.
        """
        check_title(title)
        check_text("the system message", system or "")
        check_metadata(metadata)
        with self._file.explained():
            owner = None if kept else self._owner.claim()
        with self._file.writing() as db:
            id_ = store_conversation.create(
                db,
                principal,
                system=system,
                tip=tip,
                title=title,
                metadata=metadata,
                listed=listed,
                owner=owner,
                sibling_of=sibling_of,
            )
        if not kept:
            self._unkept[id_] = principal
        return id_

    def conversation(self, conversation: str, *, principal: str) -> ConversationRow:
        """That conversation, by its full id; raises ConversationNotFound."""
        with self._file.reading() as db:
            return rows_conversation.find_conversation(db, conversation, principal)

    def conversations(
        self, *, principal: str, limit: int, after: str | None = None
    ) -> list[ConversationRow]:
        """The listed ones, the last changed first; after: only such as follow that one.

        Raises ConversationNotFound where there is no `after`, InvalidRequest for a limit that is
        not from 1 to MAX_LISTED, and one more for who wants to know whether there are more.
        """
        if limit != MAX_LISTED + 1:
            check_limit(limit, MAX_LISTED)
        with self._file.reading() as db:
            if after is not None:
                rows_conversation.find_conversation(db, after, principal)
            return rows_conversation.find_conversations(db, principal, limit, after)

    def set_system(
        self, conversation: str, *, principal: str, expected_tip: str | None, system: str | None
    ) -> None:
        """Have the conversation begin with another system message (None: with none).

        What was said is copied as text only under that one; the old path stays in the tree. Raises
        as move_tip does; InvalidRequest for text that is not valid Unicode.
        """
        check_text("the system message", system or "")
        self.settle(conversation)
        with self._file.writing() as db:
            row = require_tip(db, conversation, principal, expected_tip)
            if row.system != system:
                store_conversation.set_system(db, row, system)

    def update_conversation(
        self,
        conversation: str,
        *,
        principal: str,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ConversationRow:
        """Replace the title, the metadata or both; raises ConversationNotFound, InvalidRequest."""
        changes: dict[str, str] = {}
        if title is not None:
            changes["title"] = check_title(title)
        if metadata is not None:
            check_metadata(metadata)
            changes["metadata"] = json.dumps(dict(metadata))
        with self._file.writing() as db:
            rows_conversation.find_conversation(db, conversation, principal)
            if changes:
                db.table("conversation").update(conversation, changes)
            return rows_conversation.find_conversation(db, conversation, principal)

    def resolve(self, id_or_prefix: str, *, principal: str) -> str:
        """The full id that starts so: at least 4 characters, with or without "conv_" before them.

        Of listed ones. Raises ConversationNotFound where none or several do, or it is too short
        to tell.
        """
        prefix = id_or_prefix.strip().removeprefix("conv_").upper()
        if len(prefix) < 4:
            raise ConversationNotFound(
                f"{id_or_prefix!r} is too short: give 4 characters of the id or more"
            )
        found: list[str] = []
        if prefix.isascii() and prefix.isalnum():
            with self._file.reading() as db:
                found = rows_conversation.find_prefix(db, f"conv_{prefix}", principal)
        if not found:
            raise ConversationNotFound(f"no conversation's id starts with {id_or_prefix!r}")
        if len(found) > 1:
            some = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
            raise ConversationNotFound(f"{id_or_prefix!r} is ambiguous: {some}")
        return found[0]

    def latest(self, *, principal: str) -> str | None:
        """The listed conversation in which a turn was last begun or finished, if any."""
        with self._file.reading() as db:
            return rows_conversation.find_latest(db, principal)

    def path(self, message: str | None, *, principal: str) -> list[Message]:
        """The messages from the root to that one, both included; of None, none.

        Raises StoreError where the file does not have it, with all its ancestors, as the
        principal's.
        """
        if message is None:
            return []
        with self._file.reading() as db:
            messages = find_path(db, message, principal)
        if not messages or messages[0].parent is not None:
            raise StoreError(f"{self._file.path} has no whole path to message {message!r}")
        return messages

    def tree(self, conversation: str, *, principal: str) -> list[TreeMessage]:
        """All that the conversation has passed, each message after its parent."""
        with self._file.reading() as db:
            row = rows_conversation.find_conversation(db, conversation, principal)
            return find_tree(db, conversation, principal, row.tip)

    def passed(self, conversation: str, *, principal: str) -> list[Message]:
        """The messages of that tree, with their tokens."""
        with self._file.reading() as db:
            rows_conversation.find_conversation(db, conversation, principal)
            return find_passed(db, conversation, principal)

    def graft(
        self,
        conversation: str,
        *,
        principal: str,
        messages: Sequence[tuple[str, str]],
        expected_tip: str | None,
    ) -> str:
        """Add (role, text) messages at the tip, without ids, and move it to the last; its id.

        Raises as begin_response does; also InvalidRequest for no message, another role, or a
        system message that is not the conversation's first.
        """
        self.settle(conversation)
        with self._file.writing() as db:
            row = require_tip(db, conversation, principal, expected_tip)
            return store_conversation.graft(db, row, messages)

    def reroot(self, message: str | None, *, principal: str, system: str | None) -> str | None:
        """Copy the path to a message, as text only, under another system message (None: none).

        Returns the copy's last message; None where nothing is left. Raises InvalidRequest for an
        unknown message. What no conversation is made of is not kept for ever: prefer
        create_conversation with both.
        """
        check_text("the system message", system or "")
        with self._file.writing() as db:
            return store_conversation.reroot(db, principal, message, system)

    def move_tip(
        self, conversation: str, *, principal: str, expected: str | None, new: str | None
    ) -> None:
        """Make `new` the last message: an undo, or a return to another branch.

        Raises ConversationLocked where a turn is running or the tip is not `expected`;
        InvalidRequest where `new` is not a message of the principal under the same system message.
        """
        self.settle(conversation)
        with self._file.writing() as db:
            row = require_tip(db, conversation, principal, expected)
            store_conversation.move_to(db, row, new)

    def delete_conversation(self, conversation: str, *, principal: str) -> list[ForgottenPath]:
        """Delete it, its responses, and the messages that none of the principal's others has.

        Returns the exact tokens that nobody else of the principal has now, path by path. Raises
        ConversationNotFound; ConversationLocked while it is being answered.
        """
        self.settle(conversation)
        with self._file.writing() as db:
            require_idle(rows_conversation.find_conversation(db, conversation, principal))
            forgotten = store_removal.delete_conversation(db, conversation, principal)
        self._unkept.pop(conversation, None)
        return forgotten

    def search(self, query: str, *, principal: str, limit: int) -> list[SearchHit]:
        """The messages of listed conversations with all words of the query, the best first.

        A word is found by its beginning, a "quoted phrase" as it is. Raises InvalidRequest for a
        query that is too long or not valid Unicode.
        """
        with self._file.reading() as db:
            return search(db, principal, query, limit)

    def export(self, conversation: str, *, principal: str, kind: str) -> str:
        """The conversation as text: "json", with all its branches, or "markdown", its path.

        Raises ConversationNotFound; InvalidRequest for another kind.
        """
        with self._file.reading() as db:
            row = rows_conversation.find_conversation(db, conversation, principal)
            if kind == "json":
                return write_json(db, row)
        if kind != "markdown":
            raise InvalidRequest(f"a conversation is exported as json or markdown, not {kind!r}")
        return write_markdown(row, self.path(row.tip, principal=principal))

    def import_json(self, text: str, *, principal: str) -> str | None:
        """Store a conversation that was exported as "json"; its id. None: it is here already.

        Raises InvalidRequest where that is none, or was changed.
        """
        with self._file.writing() as db:
            return read_json(db, principal, text)

    def export_llm(self, path: Path, conversations: Sequence[str], *, principal: str) -> int:
        """Write the paths of conversations to a new `logs.db` of llm; the number of turns.

        Raises ConversationNotFound; StoreError where the file is there already.
        """
        found = [self._path_with_responses(one, principal) for one in conversations]
        with self._file.explained():
            return write_logs(path, found)

    def _path_with_responses(self, conversation: str, principal: str) -> PathWithResponses:
        row = self.conversation(conversation, principal=principal)
        path = self.path(row.tip, principal=principal)
        with self._file.reading() as db:
            makers = (rows_response.find_maker(db, m.id, principal) for m in path)
            made = {maker.answer: maker for maker in makers if maker and maker.answer}
        return PathWithResponses(row, path, made)

    def import_llm_logs(self, path: Path, *, principal: str) -> ImportedLogs:
        """Store the conversations of a `logs.db` of llm, those that are not here already."""
        chats = read_logs(path)
        with self._file.writing() as db:
            return insert_chats(db, principal, chats)

    @property
    def keys(self) -> KeyStore:
        """The keys by which a server knows its clients."""
        return KeyStore(self._file)

    def secret(self) -> bytes:
        """32 random bytes, the same for as long as the file exists; nobody is told."""
        with self._file.writing() as db:
            new = {"name": "secret", "value": secrets.token_bytes(32)}
            db.table("setting").insert(new, ignore=True)
            (row,) = select(db, "SELECT value FROM setting WHERE name = 'secret'")
        return bytes(row["value"])

    def backup(self, path: Path) -> None:
        """Write a whole copy of the file to a new one; turns may go on meanwhile.

        Raises StoreError where there is a file already, or it cannot be written.
        """
        self._file.copy_to(path)

    def verify(self) -> list[str]:
        """What is wrong with the file, in sentences; nothing when it is sound.

        Derives every message's id again from its content, and lets SQLite check its pages and
        that every parent, tip, question and answer exists.
        """
        try:
            with self._file.reading() as db:
                return find_problems(db)
        except StoreError as error:
            return [str(error)]
