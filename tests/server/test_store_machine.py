"""The store against a naive tree: turns, edits, regenerations, undos, crashes, in any order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from radixchat.engine.errors import ConversationLocked, StoreError
from radixchat.server.message import Answer
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, finish, load

# A message as the model sees it: role, text, ids, status. A path is a tuple of them, and needs
# no ids and no parents: what came before is in it.
Node = tuple[str, str, tuple[int, ...], str]
Path_ = tuple[Node, ...]

# Few texts, so that branches and conversations meet in the same messages again and again.
TEXTS = st.sampled_from(["a", "b", "ä\0😀"])


@dataclass
class Expected:
    """A conversation in the model: its path, every path it has passed, the answer under way."""

    path: Path_ = ()
    passed: set[Path_] = field(default_factory=set)
    running: str | None = None
    partial: str = ""
    before: Path_ | None = None  # where a regeneration that comes to nothing returns

    def move(self, path: Path_) -> None:
        self.path = path
        self.passed.add(path)


def node(role: str, text: str, status: str = "complete") -> Node:
    return (role, text, tuple(text.encode()), status)


class StoreMachine(RuleBasedStateMachine):
    """One file, used by one process after another: a crash closes what was running."""

    conversations = Bundle("conversations")

    @initialize()
    def open_a_new_file(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder / "s.db")
        self.expected: dict[str, Expected] = {}
        self.latest: str | None = None

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @property
    def running(self) -> list[str]:
        return [conversation for conversation, e in self.expected.items() if e.running]

    @precondition(lambda self: len(self.expected) < 4)
    @rule(target=conversations, system=st.none() | TEXTS)
    def create(self, system: str | None) -> str:
        conversation = self.store.create_conversation(principal="local", system=system)
        self.expected[conversation] = Expected()
        root = () if system is None else (("system", system, (), "complete"),)
        self.expected[conversation].move(root)
        return conversation

    @rule(conversation=conversations, text=TEXTS)
    def send(self, conversation: str, text: str) -> None:
        """A turn at the tip."""
        self.answer_under(conversation, len(self.expected[conversation].path), text)

    @rule(conversation=conversations, text=TEXTS, data=st.data())
    def edit(self, conversation: str, text: str, data: st.DataObject) -> None:
        """A turn in the place of an earlier one."""
        users = [i for i, n in enumerate(self.expected[conversation].path) if n[0] == "user"]
        if users:
            turn = data.draw(st.integers(1, len(users)))
            before = load(self.store, conversation).before_turn(turn)
            assert len(before.messages) == users[turn - 1]
            self.answer_under(conversation, users[turn - 1], text)

    def answer_under(self, conversation: str, length: int, text: str) -> None:
        """Begin to answer a new user message after the first `length` messages of the path."""
        expected = self.expected[conversation]
        parent = load(self.store, conversation).messages[:length]
        ids = tuple(text.encode())
        changes: dict[str, Any] = {"parent": parent[-1].id if parent else None}
        if expected.running:
            with pytest.raises(ConversationLocked):
                begin(self.store, conversation, text, ids, **changes)
            return
        expected.running = begin(self.store, conversation, text, ids, **changes).id
        expected.before = None
        expected.move((*expected.path[:length], node("user", text)))
        self.latest = conversation

    @rule(conversation=conversations)
    def regenerate(self, conversation: str) -> None:
        """Another answer to the last user message."""
        expected = self.expected[conversation]
        users = [i for i, n in enumerate(expected.path) if n[0] == "user"]
        if users and not expected.running:
            parent = load(self.store, conversation).for_regeneration().tip
            expected.running = begin(self.store, conversation, None, parent=parent).id
            expected.before = expected.path
            expected.move(expected.path[: users[-1] + 1])
            self.latest = conversation

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
        self.ended(expected, text, end[1])
        self.latest = conversation

    def ended(self, expected: Expected, text: str, status: str) -> None:
        if text or status == "complete":
            expected.move((*expected.path, node("assistant", text, status)))
        elif expected.before is not None:
            expected.move(expected.before)
        expected.running, expected.partial = None, ""

    @rule(conversation=conversations)
    def undo(self, conversation: str) -> None:
        expected = self.expected[conversation]
        path = load(self.store, conversation)
        users = [i for i, n in enumerate(expected.path) if n[0] == "user"]
        if not users:
            return
        new = path.before_last_turn().tip
        if expected.running:
            with pytest.raises(ConversationLocked):
                self.store.move_tip(conversation, expected=path.tip, new=new, principal="local")
            return
        self.store.move_tip(conversation, expected=path.tip, new=new, principal="local")
        expected.move(expected.path[: users[-1]])

    @rule()
    def crash(self) -> None:
        """The process ends; the next one recovers every answer that was under way."""
        self.store.close()
        self.store = Store(self.folder / "s.db")
        for expected in self.expected.values():
            if expected.running:
                self.ended(expected, expected.partial, "interrupted")

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def another_process_looks(self, data: st.DataObject) -> None:
        """A second store on the file sees the same, and recovers nothing that lives."""
        conversation = data.draw(st.sampled_from(list(self.expected)))
        with Store(self.folder / "s.db") as other:
            assert load(other, conversation) == load(self.store, conversation)
            assert other.resolve(conversation, principal="local") == conversation

    @invariant()
    def paths_are_as_expected(self) -> None:
        for conversation, expected in self.expected.items():
            path = load(self.store, conversation)
            found = tuple((m.role, m.text, m.token_ids, m.status) for m in path.messages)
            assert found == expected.path
            assert path.token_ids == sum((n[2] for n in expected.path), ())
        assert self.store.latest(principal="local") == self.latest

    @invariant()
    def nothing_is_stored_twice_or_lost(self) -> None:
        """The messages stored are the prefixes of all paths ever passed, one row each."""
        prefixes = {
            path[:length]
            for expected in self.expected.values()
            for path in expected.passed
            for length in range(1, len(path) + 1)
        }
        with self.store._file.reading() as db:
            assert db.table("message").count == len(prefixes)
        assert self.store.verify() == []


StoreMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStore = StoreMachine.TestCase
