"""The store against a naive tree: turns, edits, forks, undos, crashes, deletions, in any order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from radixchat.engine.errors import ConversationLocked, ConversationNotFound, StoreError
from radixchat.server.message import Answer
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, counts, finish, load

# A message as the model sees it: role, text, ids, status. A path is a tuple of them, and needs
# no ids and no parents: what came before is in it.
Node = tuple[str, str, tuple[int, ...], str]
Path_ = tuple[Node, ...]

# Few texts, so that branches and conversations meet in the same messages again and again.
TEXTS = st.sampled_from(["a", "b", "ä\0😀"])
PRINCIPALS = ("ada", "bob")


@dataclass
class Expected:
    """A conversation in the model: its path, the answer under way, question and answer of each
    response, and where else it has been.
    """

    principal: str
    path: Path_ = ()
    listed: bool = True
    running: str | None = None
    partial: str = ""
    before: Path_ | None = None  # where a regeneration that comes to nothing returns
    responses: dict[str, tuple[Path_, Path_ | None]] = field(default_factory=dict)
    passed: set[Path_] = field(default_factory=set)
    # What can go on: its text so far, the path of that as an answer, and `before`.
    killed: dict[str, tuple[str, Path_ | None, Path_ | None]] = field(default_factory=dict)

    @property
    def root(self) -> Path_:
        return self.path[:1] if self.path and self.path[0][0] == "system" else ()

    def needed(self) -> Iterator[Path_]:
        """Every path that it is at, or has asked or was answered with."""
        yield self.path
        yield self.root
        yield from self.passed
        if self.running and self.before:
            yield self.before
        for question, answer in self.responses.values():
            yield question
            if answer is not None:
                yield answer


def node(role: str, text: str, status: str = "complete", *, said: bool = True) -> Node:
    return (role, text, tuple(text.encode()) if said else (), status)


class StoreMachine(RuleBasedStateMachine):
    """One file, used by one process after another: a crash closes what was running."""

    conversations = Bundle("conversations")

    @initialize()
    def open_a_new_file(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder / "s.db")
        self.expected: dict[str, Expected] = {}
        self.ids: dict[Path_, str] = {}
        self.used: list[str] = []  # the last used comes last

    def teardown(self) -> None:
        """Sound to the end; with its last conversation nothing of a principal is left."""
        assert self.store.verify() == []
        for conversation, expected in self.expected.items():
            if expected.running:
                finish(self.store, expected.running)
            self.store.delete_conversation(conversation, principal=expected.principal)
        assert set(counts(self.store).values()) == {0}
        assert self.store.verify() == []
        self.store.close()
        shutil.rmtree(self.folder)

    @property
    def running(self) -> list[str]:
        return [conversation for conversation, e in self.expected.items() if e.running]

    def note(self, conversation: str) -> None:
        """Remember the ids of the messages on the path."""
        expected = self.expected[conversation]
        messages = load(self.store, conversation, expected.principal).messages
        for length, message in enumerate(messages, start=1):
            self.ids[expected.path[:length]] = message.id

    def use(self, conversation: str) -> None:
        if conversation in self.used:
            self.used.remove(conversation)
        self.used.append(conversation)

    @precondition(lambda self: len(self.expected) < 5)
    @rule(
        target=conversations,
        principal=st.sampled_from(PRINCIPALS),
        system=st.none() | TEXTS,
        listed=st.booleans(),
    )
    def create(self, principal: str, system: str | None, listed: bool) -> str:
        made = self.store.create_conversation(principal=principal, system=system, listed=listed)
        root: Path_ = () if system is None else (node("system", system, said=False),)
        self.expected[made] = Expected(principal, root, listed, passed={root} - {()})
        self.note(made)
        return made

    @precondition(lambda self: len(self.expected) < 5)
    @rule(target=conversations, origin=conversations, data=st.data())
    def fork(self, origin: str, data: st.DataObject) -> Any:
        """Another conversation at a message of this one."""
        expected = self.expected[origin]
        paths = [path for path in expected.needed() if path]
        if not paths:
            return multiple()
        path = data.draw(st.sampled_from(paths))
        path = path[: data.draw(st.integers(1, len(path)))]
        made = self.store.create_conversation(
            principal=expected.principal, tip=self.ids[path], listed=expected.listed
        )
        forked = Expected(expected.principal, path, expected.listed, passed={path})
        self.expected[made] = forked
        return made

    @rule(conversation=consumes(conversations))
    def delete(self, conversation: str) -> None:
        """Everything that nobody else of its principal needs is gone, and to be forgotten."""
        expected = self.expected[conversation]
        if expected.running:
            with pytest.raises(ConversationLocked):
                self.store.delete_conversation(conversation, principal=expected.principal)
            finish(self.store, expected.running)
            self.use(conversation)
        gone = list(expected.needed())
        forgotten = self.store.delete_conversation(conversation, principal=expected.principal)
        del self.expected[conversation]
        if conversation in self.used:
            self.used.remove(conversation)
        kept = self.needed(expected.principal)
        for path in gone:
            ids = sum((n[2] for n in path), ())
            if path and path[-1][2] and path not in kept:
                assert any(one.token_ids[: len(ids)] == ids for one in forgotten)
        assert all(one.start <= len(one.token_ids) for one in forgotten)

    @rule(conversation=conversations, text=TEXTS)
    def send(self, conversation: str, text: str) -> None:
        """A turn at the tip."""
        self.answer_under(conversation, len(self.expected[conversation].path), text)

    @rule(conversation=conversations, text=TEXTS, data=st.data())
    def edit(self, conversation: str, text: str, data: st.DataObject) -> None:
        """A turn in the place of an earlier one."""
        expected = self.expected[conversation]
        users = [i for i, n in enumerate(expected.path) if n[0] == "user"]
        if users:
            turn = data.draw(st.integers(1, len(users)))
            before = load(self.store, conversation, expected.principal).before_turn(turn)
            assert len(before.messages) == users[turn - 1]
            self.answer_under(conversation, users[turn - 1], text)

    def answer_under(self, conversation: str, length: int, text: str) -> None:
        """Begin to answer a new user message after the first `length` messages of the path."""
        expected = self.expected[conversation]
        parent = load(self.store, conversation, expected.principal).messages[:length]
        ids = tuple(text.encode())
        changes: dict[str, Any] = {
            "parent": parent[-1].id if parent else None,
            "principal": expected.principal,
        }
        if expected.running:
            with pytest.raises(ConversationLocked):
                begin(self.store, conversation, text, ids, **changes)
            return
        expected.running = begin(self.store, conversation, text, ids, **changes).id
        expected.before = None
        expected.path = (*expected.path[:length], node("user", text))
        expected.responses[expected.running] = (expected.path, None)
        self.note(conversation)
        self.use(conversation)

    @rule(conversation=conversations)
    def regenerate(self, conversation: str) -> None:
        """Another answer to the last user message."""
        expected = self.expected[conversation]
        users = [i for i, n in enumerate(expected.path) if n[0] == "user"]
        if users and not expected.running:
            parent = load(self.store, conversation, expected.principal).for_regeneration().tip
            row = begin(self.store, conversation, None, parent=parent, principal=expected.principal)
            expected.running, expected.before = row.id, expected.path
            expected.path = expected.path[: users[-1] + 1]
            expected.responses[row.id] = (expected.path, None)
            self.use(conversation)

    @rule(conversation=conversations, text=TEXTS, role=st.sampled_from(["user", "assistant"]))
    def graft(self, conversation: str, text: str, role: str) -> None:
        """A message that is added without an answer."""
        expected = self.expected[conversation]
        tip = load(self.store, conversation, expected.principal).tip
        arguments: dict[str, Any] = {
            "principal": expected.principal,
            "messages": [(role, text)],
            "expected_tip": tip,
        }
        if expected.running:
            with pytest.raises(ConversationLocked):
                self.store.graft(conversation, **arguments)
            return
        self.store.graft(conversation, **arguments)
        expected.path = (*expected.path, node(role, text, said=False))
        expected.passed.add(expected.path)
        self.note(conversation)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), text=TEXTS)
    def save_partial(self, data: st.DataObject, text: str) -> None:
        expected = self.expected[data.draw(st.sampled_from(self.running))]
        assert expected.running
        expected.partial = text
        self.store.save_partial(expected.running, Answer(text, tuple(text.encode())))

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        text=TEXTS | st.just(""),
        end=st.sampled_from(
            [("completed", "complete"), ("incomplete", "interrupted"), ("failed", "error")]
        ),
    )
    def finish(self, data: st.DataObject, text: str, end: tuple[str, str]) -> None:
        """A response ends once; an identical end is fine, another one is told."""
        conversation = data.draw(st.sampled_from(self.running))
        expected = self.expected[conversation]
        assert expected.running
        answer = finish(self.store, expected.running, text, status=end[0])
        assert (answer is None) == (not text and end[0] != "completed")
        assert finish(self.store, expected.running, text, status=end[0]) == answer
        with pytest.raises(StoreError, match="taken over"):
            finish(self.store, expected.running, "late", status="failed")
        self.ended(conversation, text, end[1])
        self.use(conversation)

    def ended(self, conversation: str, text: str, status: str) -> Path_ | None:
        """What comes of the response under way; the path of its answer."""
        expected = self.expected[conversation]
        assert expected.running
        question, made = expected.responses[expected.running][0], None
        if text or status == "complete":
            made = (*question, node("assistant", text, status))
            expected.responses[expected.running] = (question, made)
            answer = self.store.response(expected.running, principal=expected.principal).answer
            assert answer is not None
            self.ids[made] = answer
        if expected.path == question:
            expected.path = made or expected.before or question
        expected.running, expected.partial = None, ""
        self.note(conversation)
        return made

    @rule(conversation=conversations, data=st.data())
    def move(self, conversation: str, data: st.DataObject) -> None:
        """An undo, or to where another conversation with the same system message has been."""
        expected = self.expected[conversation]
        tip = load(self.store, conversation, expected.principal).tip
        paths = {
            path[:length]
            for path in self.needed(expected.principal)
            for length in range(1, len(path) + 1)
        } | {()}
        same_root = {
            path
            for path in paths
            if (path[:1] if path and path[0][0] == "system" else ()) == expected.root
        }
        new = data.draw(st.sampled_from(sorted(same_root)))
        arguments: dict[str, Any] = {"principal": expected.principal, "expected": tip}
        if expected.running:
            with pytest.raises(ConversationLocked):
                self.store.move_tip(conversation, new=self.ids.get(new), **arguments)
            return
        self.store.move_tip(conversation, new=self.ids[new] if new else None, **arguments)
        expected.path = new
        expected.passed |= {new} - {()}

    @rule()
    def crash(self) -> None:
        """The process ends; the next one recovers every answer that was under way."""
        self.store.close()
        self.store = Store(self.folder / "s.db")
        for conversation, expected in self.expected.items():
            if expected.running:
                response, text = expected.running, expected.partial
                made = self.ended(conversation, text, "interrupted")
                expected.killed[response] = text, made, expected.before

    @rule(conversation=conversations)
    def reopen(self, conversation: str) -> None:
        """What a crash has cut short goes on with what it had."""
        expected = self.expected[conversation]
        if expected.running or not expected.killed:
            return
        response, (text, made, before) = expected.killed.popitem()
        row = self.store.reopen_response(response, principal=expected.principal)
        assert row.saved == Answer(text, tuple(text.encode()))
        question, _ = expected.responses[response]
        ended_at = made or before
        if ended_at is not None and expected.path == ended_at:
            expected.path = question
        expected.before = before
        expected.responses[response] = (question, None)
        expected.running, expected.partial = response, text
        self.use(conversation)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def another_process_looks(self, data: st.DataObject) -> None:
        """A second store on the file sees the same, and recovers nothing that lives."""
        conversation = data.draw(st.sampled_from(list(self.expected)))
        principal = self.expected[conversation].principal
        with Store(self.folder / "s.db") as other:
            assert load(other, conversation, principal) == load(self.store, conversation, principal)
            assert other.verify() == []
            (stranger,) = set(PRINCIPALS) - {principal}
            with pytest.raises(ConversationNotFound):
                other.conversation(conversation, principal=stranger)

    def needed(self, principal: str) -> set[Path_]:
        """The paths that a principal's conversations need, and all that lead to them."""
        return {
            path[:length]
            for expected in self.expected.values()
            if expected.principal == principal
            for path in expected.needed()
            for length in range(1, len(path) + 1)
        }

    @invariant()
    def paths_are_as_expected(self) -> None:
        for conversation, expected in self.expected.items():
            path = load(self.store, conversation, expected.principal)
            found = tuple((m.role, m.text, m.token_ids, m.status) for m in path.messages)
            assert found == expected.path
        for principal in PRINCIPALS:
            listed = {c for c, e in self.expected.items() if e.principal == principal and e.listed}
            latest = next((c for c in reversed(self.used) if c in listed), None)
            assert self.store.latest(principal=principal) == latest
            rows = self.store.conversations(principal=principal, limit=10)
            assert {row.id for row in rows} == listed

    @invariant()
    def nothing_that_is_needed_is_lost(self) -> None:
        """Each principal holds what he needs, each message one row."""
        with self.store._file.reading() as db:
            rows = list(db.query("SELECT principal, message FROM holding"))
            messages = db.table("message").count
        assert messages == len({row["message"] for row in rows})
        for principal in PRINCIPALS:
            held = {row["message"] for row in rows if row["principal"] == principal}
            assert {self.ids[path] for path in self.needed(principal)} == held


StoreMachine.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStore = StoreMachine.TestCase
