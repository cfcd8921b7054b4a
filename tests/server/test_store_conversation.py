"""Forks, grafts, copies under another system message, and tips that move to them."""

from __future__ import annotations

import pytest

from radixchat.engine.errors import ConversationLocked, InvalidRequest
from radixchat.server.message import Answer
from radixchat.server.rows import Outcome
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, counts, load, say, texts


def test_a_fork_copies_nothing(store: Store) -> None:
    """It is another tip at the same message, and goes its own way from there."""
    trunk = store.create_conversation(principal=ME, system="S")
    first = say(store, trunk, "Q1", "A1")
    say(store, trunk, "Q2", "A2")
    before = counts(store)["message"]
    fork = store.create_conversation(principal=ME, tip=first, title="Fork")
    assert counts(store)["message"] == before
    assert store.conversation(fork, principal=ME).system == "S"
    say(store, fork, "Q2b", "A2b")
    assert texts(store, fork) == ["S", "Q1", "A1", "Q2b", "A2b"]
    assert texts(store, trunk) == ["S", "Q1", "A1", "Q2", "A2"]


def test_a_fork_at_a_question_answers_it_again(store: Store) -> None:
    """A sibling of an answer, while the other conversation's tip stays."""
    trunk = store.create_conversation(principal=ME)
    answer = say(store, trunk)
    question = load(store, trunk).messages[0].id
    fork = store.create_conversation(principal=ME, tip=question, listed=False)
    row = begin(store, fork, None)
    assert (row.question, row.tip_before) == (question, question)
    store.finish_response(row.id, Outcome("completed", answer=Answer("Again", (9,))))
    assert texts(store, fork) == ["Hi", "Again"]
    assert store.conversation(trunk, principal=ME).tip == answer


def test_a_fork_under_another_system_message(store: Store) -> None:
    """The path is copied as text; its ids were for another prompt."""
    trunk = store.create_conversation(principal=ME, system="Be brief.")
    tip = say(store, trunk)
    fork = store.create_conversation(principal=ME, system="Be long.", tip=tip)
    path = load(store, fork).messages
    assert [m.text for m in path] == ["Be long.", "Hi", "Hello"]
    assert all(not m.token_ids and not m.render_hash for m in path)
    assert [hit.conversation for hit in store.search("long", principal=ME, limit=5)] == [fork]


def test_reroot(store: Store) -> None:
    """Under another system message or none; statuses stay; equal copies are one."""
    trunk = store.create_conversation(principal=ME, system="S")
    row = begin(store, trunk)
    store.finish_response(row.id, Outcome("incomplete", answer=Answer("Hel", (5,))))
    tip = store.conversation(trunk, principal=ME).tip
    bare = store.reroot(tip, principal=ME, system=None)
    assert [(m.role, m.text, m.status) for m in store.path(bare, principal=ME)] == [
        ("user", "Hi", "complete"),
        ("assistant", "Hel", "interrupted"),
    ]
    assert store.reroot(tip, principal=ME, system=None) == bare
    other = store.reroot(tip, principal=ME, system="T")
    assert [m.text for m in store.path(other, principal=ME)] == ["T", "Hi", "Hel"]
    root = load(store, trunk).messages[0].id
    assert store.reroot(root, principal=ME, system=None) is None
    alone = store.reroot(None, principal=ME, system="T")
    assert [m.text for m in store.path(alone, principal=ME)] == ["T"]


def test_graft(store: Store) -> None:
    """Messages join the history as they are, and the next turn follows them."""
    conversation = store.create_conversation(principal=ME)
    said = [("system", "S"), ("user", "Q"), ("assistant", "A"), ("user", "Q2")]
    tip = store.graft(conversation, principal=ME, messages=said, expected_tip=None)
    path = load(store, conversation)
    assert [(m.role, m.text) for m in path.messages] == said
    assert path.tip == tip
    assert store.conversation(conversation, principal=ME).system == "S"
    say(store, conversation, "Q3", "A3")
    assert texts(store, conversation) == ["S", "Q", "A", "Q2", "Q3", "A3"]
    assert [hit.message for hit in store.search("Q2", principal=ME, limit=5)] == [tip]


def test_grafts_that_are_refused(store: Store) -> None:
    """A late system message, an unknown role, nothing, a tip that moved: nothing changes."""
    conversation = store.create_conversation(principal=ME, system="S")
    tip = store.conversation(conversation, principal=ME).tip
    before = counts(store)
    for messages, complaint in (
        ([("user", "Q"), ("system", "T")], "only be the first"),
        ([("user", "Q"), ("tool", "T")], "not 'tool'"),
        ([("user", "\ud800")], "lone surrogate"),
        ([], "no message to add"),
    ):
        with pytest.raises(InvalidRequest, match=complaint):
            store.graft(conversation, principal=ME, messages=messages, expected_tip=tip)
    with pytest.raises(ConversationLocked):
        store.graft(conversation, principal=ME, messages=[("user", "Q")], expected_tip=None)
    begin(store, conversation)
    with pytest.raises(ConversationLocked, match="being answered"):
        store.graft(conversation, principal=ME, messages=[("user", "Q")], expected_tip=tip)
    assert counts(store)["message"] == before["message"] + 1


def test_a_tip_moves_to_any_message_under_the_same_system_message(store: Store) -> None:
    """Also to another conversation's, whose words can be searched for from then on."""
    hidden = store.create_conversation(principal=ME, system="S", listed=False)
    there = say(store, hidden, "needle", "found")
    conversation = store.create_conversation(principal=ME, system="S")
    tip = store.conversation(conversation, principal=ME).tip
    assert store.search("needle", principal=ME, limit=5) == []
    store.move_tip(conversation, principal=ME, expected=tip, new=there)
    assert texts(store, conversation) == ["S", "needle", "found"]
    assert [hit.conversation for hit in store.search("needle", principal=ME, limit=5)] == [
        conversation
    ]
    other = store.create_conversation(principal=ME, system="T")
    root = store.conversation(other, principal=ME).tip
    with pytest.raises(InvalidRequest, match="has no message"):
        store.move_tip(other, principal=ME, expected=root, new=there)


def test_the_tree(store: Store) -> None:
    """Each message once, after its parent, with what made it; the path to the tip is marked."""
    conversation = store.create_conversation(principal=ME, system="S")
    first = say(store, conversation, "Q1", "A1")
    second = say(store, conversation, "Q2", "A2")
    row = begin(store, conversation, "Q2b", parent=first)
    tree = store.tree(conversation, principal=ME)
    assert [(m.text, m.on_path) for m in tree] == [
        ("S", True),
        ("Q1", True),
        ("A1", True),
        ("Q2", False),
        ("A2", False),
        ("Q2b", True),
    ]
    seen: set[str | None] = {None}
    for message in tree:
        assert message.parent in seen
        seen.add(message.id)
    made = {m.id: m.responses for m in tree if m.responses}
    responses = store.responses_of(conversation, principal=ME)
    assert made == {first: (responses[0].id,), second: (responses[1].id,)}
    assert responses[2].id == row.id
