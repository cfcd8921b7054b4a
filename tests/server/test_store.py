"""Turns in the message tree: what is stored, what is shared, what is refused."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import (
    ConversationNotFound,
    InvalidRequest,
    ResponseNotFound,
    StoreError,
)
from radixchat.server.message import NOTHING, Answer, LeftOut, NewMessage
from radixchat.server.rows_message import Place, insert_message
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, change, finish, load, say

COLUMNS = "(id, title, used, created_at, updated_at)"

# A conversation


def test_new_conversation(store: Store) -> None:
    """It is empty, or at its system message, and not yet the one last used."""
    row = store.conversation(
        store.create_conversation(principal="local", title="A title"), principal="local"
    )
    assert row.id.startswith("conv_")
    assert (row.title, row.tip, row.system) == ("A title", None, None)
    assert abs(row.created_at - time.time()) < 60
    row = store.conversation(
        store.create_conversation(principal="local", system=""), principal="local"
    )
    assert row.system == ""
    assert [message.role for message in store.path(row.tip, principal="local")] == ["system"]
    assert store.latest(principal="local") is None


def test_unknown_conversation(store: Store) -> None:
    """Every method that takes a conversation refuses an unknown one by its id."""
    with pytest.raises(ConversationNotFound, match="'conv_X'"):
        store.conversation("conv_X", principal="local")
    with pytest.raises(ConversationNotFound, match="'conv_X'"):
        store.move_tip("conv_X", expected=None, new=None, principal="local")
    with pytest.raises(ConversationNotFound, match="'conv_X'"):
        store.begin_response(
            conversation="conv_X",
            expected_tip=None,
            parent=None,
            user=NewMessage("Hi", (1,)),
            options={},
            principal="local",
            render_hash="r",
        )


def test_resolve(store: Store, path: Path) -> None:
    """A prefix is enough where it is unambiguous: with or without conv_, in either case."""
    for id_ in ("conv_AAAA1111", "conv_AAAA2222", "conv_BBBB1111"):
        change(path, f"INSERT INTO conversation {COLUMNS} VALUES (?, '', 0, 1.0, 1.0)", id_)
    for known in ("conv_BBBB1111", "conv_BBBB", "BBBB1", "bbbb", " conv_bbbb1111\n"):
        assert store.resolve(known, principal="local") == "conv_BBBB1111"
    with pytest.raises(ConversationNotFound, match=r"ambiguous: conv_AAAA1111, conv_AAAA2222$"):
        store.resolve("AAAA", principal="local")
    for unknown in (
        "CCCC",
        "BBBB11112",
        "AAA_",
        "%%%%",
        "____",
        "äöüß",
        "AAAA\0",
        "AA*A",
        "\ud800" * 4,
    ):
        with pytest.raises(ConversationNotFound, match="no conversation's id starts with"):
            store.resolve(unknown, principal="local")
    for short in ("", "conv_", "BBB", "conv_BBB"):
        with pytest.raises(ConversationNotFound, match="too short"):
            store.resolve(short, principal="local")


def test_latest_is_the_last_used(store: Store) -> None:
    """A turn begun or finished counts, whatever the clock says; undo and creation do not."""
    first, second = (
        store.create_conversation(principal="local"),
        store.create_conversation(principal="local"),
    )
    say(store, first)
    assert store.latest(principal="local") == first
    running = begin(store, second)
    assert store.latest(principal="local") == second
    say(store, first)
    assert store.latest(principal="local") == first
    finish(store, running.id)
    assert store.latest(principal="local") == second
    store.create_conversation(principal="local")
    store.move_tip(
        first,
        expected=store.conversation(first, principal="local").tip,
        new=None,
        principal="local",
    )
    assert store.latest(principal="local") == second


# A turn


def test_one_turn(store: Store) -> None:
    """The question is stored when the response begins, the answer when it ends."""
    conversation = store.create_conversation(principal="local", system="Be brief.")
    row = begin(store, conversation, "Hi", (1, 2, 3))
    question = load(store, conversation).messages[-1]
    assert (question.role, question.text, question.token_ids) == ("user", "Hi", (1, 2, 3))
    assert (row.question, row.answer, row.status) == (question.id, None, "in_progress")
    assert (row.options, row.usage, row.timings) == ({"temperature": 0.5}, {}, {})
    answer = finish(store, row.id, "Hello")
    path = load(store, conversation)
    assert [message.text for message in path.messages] == ["Be brief.", "Hi", "Hello"]
    assert (path.tip, path.messages[-1].status) == (answer, "complete")
    assert path.token_ids == (1, 2, 3, *b"Hello")
    ended = store.response(row.id, principal="local")
    assert (ended.answer, ended.status, ended.reason) == (answer, "completed", None)
    assert (ended.usage, ended.timings) == (
        {"input_tokens": 2, "output_tokens": 6},
        {"ttft_ms": 1.5},
    )


@pytest.mark.parametrize(
    ("status", "reason", "error", "expected"),
    [
        ("completed", None, None, "complete"),
        ("incomplete", "interrupted", None, "interrupted"),
        ("incomplete", "max_output_tokens", None, "interrupted"),
        ("failed", None, "it broke", "error"),
    ],
)
def test_ends(
    store: Store, status: str, reason: str | None, error: str | None, expected: str
) -> None:
    """How the response ended is kept, and marks the answer."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    finish(store, row.id, "Hel", status=status, reason=reason, error=error)
    ended = store.response(row.id, principal="local")
    assert (ended.status, ended.reason, ended.error) == (status, reason, error)
    assert load(store, conversation).messages[-1].status == expected


@pytest.mark.parametrize("recovered", [False, True])
def test_nothing_generated(path: Path, recovered: bool) -> None:
    """Without a single token there is no answer, and the tip stays at the question."""
    store = Store(path)
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    if recovered:
        store.close()
        store = Store(path)
    else:
        assert finish(store, row.id, "", status="incomplete", reason="interrupted") is None
    ended = store.response(row.id, principal="local")
    reason = "server_shutdown" if recovered else "interrupted"
    assert (ended.status, ended.reason, ended.answer) == ("incomplete", reason, None)
    assert load(store, conversation).tip == row.question
    say(store, conversation, "Still there?")
    assert [m.role for m in load(store, conversation).messages] == ["user", "user", "assistant"]
    store.close()


@pytest.mark.parametrize("recovered", [False, True])
def test_regeneration_without_a_token_gives_the_old_answer_back(
    path: Path, recovered: bool
) -> None:
    """Stopped, or killed, before its first token: the conversation is as it was."""
    store = Store(path)
    conversation = store.create_conversation(principal="local")
    answer = say(store, conversation)
    question = store.path(answer, principal="local")[-1].parent
    row = begin(store, conversation, None, parent=question)
    assert load(store, conversation).tip == question
    if recovered:
        store.close()
        store = Store(path)
    else:
        finish(store, row.id, "", token_ids=(), status="incomplete", reason="interrupted")
    assert load(store, conversation).tip == answer
    say(store, conversation, "Still there?")
    store.close()


def test_answer_that_the_model_ended_at_once_is_an_empty_one(store: Store) -> None:
    """A stop token and nothing before it is a complete answer, without text and ids."""
    conversation = store.create_conversation(principal="local")
    answer = finish(store, begin(store, conversation).id, "", token_ids=())
    last = store.path(answer, principal="local")[-1]
    assert (last.role, last.text, last.token_ids, last.status) == ("assistant", "", (), "complete")


def test_empty_answer_is_an_answer(store: Store) -> None:
    """Ids without text (a stop token, half a character) are kept."""
    conversation = store.create_conversation(principal="local")
    answer = finish(store, begin(store, conversation).id, "", token_ids=(2,))
    assert store.path(answer, principal="local")[-1].token_ids == (2,)


def test_finish_twice(store: Store) -> None:
    """An identical end is no second one; what comes too late changes nothing."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    answer = finish(store, row.id, "Hello")
    before = (
        store.response(row.id, principal="local"),
        store.conversation(conversation, principal="local"),
    )
    assert finish(store, row.id, "Hello") == answer
    store.save_partial(row.id, Answer("late", (9,)))
    assert (
        store.response(row.id, principal="local"),
        store.conversation(conversation, principal="local"),
    ) == before


@pytest.mark.parametrize(
    "late",
    [
        {"text": "Hello"},
        {"status": "completed"},
        {"token_ids": (7,)},
        {"text": "", "token_ids": (), "status": "failed"},
    ],
)
def test_end_that_another_process_has_decided(store: Store, late: dict[str, Any]) -> None:
    """A response that was taken over and ended meanwhile is not reported as stored."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    partial: dict[str, Any] = {"text": "Hel", "status": "incomplete", "reason": "interrupted"}
    with Store(store._file.path) as other:
        finish(other, row.id, **partial)
    before = (
        store.response(row.id, principal="local"),
        store.conversation(conversation, principal="local"),
    )
    taken_over = rf"another process .*{row.id}.* as 'incomplete'"
    with pytest.raises(StoreError, match=taken_over):
        finish(store, row.id, **partial | late)
    assert finish(store, row.id, **partial) == before[0].answer
    assert (
        store.response(row.id, principal="local"),
        store.conversation(conversation, principal="local"),
    ) == before
    say(store, conversation)


def test_late_end_of_an_unanswered_response(store: Store) -> None:
    """Where the other process had found nothing to keep, an answer that comes late is told so."""
    row = begin(store, store.create_conversation(principal="local"))
    assert finish(store, row.id, "", status="incomplete") is None
    assert finish(store, row.id, "", status="incomplete") is None
    with pytest.raises(StoreError, match="another process"):
        finish(store, row.id, "Hel", status="incomplete")


@pytest.mark.parametrize("bad", [{"text": "a\ud800", "token_ids": (1,)}, {"token_ids": (1, 2**31)}])
def test_answer_that_cannot_be_stored(store: Store, bad: dict[str, Any]) -> None:
    """It is refused, and its response ends with what was saved of it: nothing stays locked."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    store.save_partial(row.id, Answer("part", (6,)))
    with pytest.raises(InvalidRequest) as refusal:
        finish(store, row.id, **bad)
    ended = store.response(row.id, principal="local")
    assert (ended.status, ended.error) == ("failed", str(refusal.value))
    last = load(store, conversation).messages[-1]
    assert (last.text, last.token_ids, last.status) == ("part", (6,), "error")
    say(store, conversation)


def test_error_with_undecodable_bytes_is_kept_readable(store: Store) -> None:
    """An error's text comes from anywhere: what has no UTF-8 form is stored escaped."""
    row = begin(store, store.create_conversation(principal="local"))
    finish(store, row.id, "Hel", status="failed", error="no file 'a\udcff'")
    assert store.response(row.id, principal="local").error == r"no file 'a\udcff'"


def test_unknown_response(store: Store) -> None:
    """An id that is no response's is refused, and shown."""
    with pytest.raises(ResponseNotFound, match="no response 'resp_X'"):
        store.response("resp_X", principal="local")
    with pytest.raises(ResponseNotFound, match="no response 'resp_X'"):
        finish(store, "resp_X")


def test_bad_input_stores_nothing(store: Store) -> None:
    """Text or ids that cannot be stored are refused before anything changes."""
    conversation = store.create_conversation(principal="local")
    for text, ids in (("a\ud800", (1,)), ("a", (1, -1)), ("a", (2**31,))):
        with pytest.raises(InvalidRequest):
            begin(store, conversation, text, ids)
    unwanted: list[dict[str, Any]] = [
        {"system": "\udfff"},
        {"title": "\udfff"},
        {"metadata": {"a": "\udfff"}},
        {"metadata": {"\udfff": ""}},
    ]
    for bad in unwanted:
        with pytest.raises(InvalidRequest, match="lone surrogate"):
            store.create_conversation(principal="local", **bad)
    assert load(store, conversation).messages == ()
    with store._file.reading() as db:
        assert db.table("conversation").count == 1
    say(store, conversation)


# Edits, regenerations, undo


def test_regenerate(store: Store) -> None:
    """Another answer is a sibling of the first; both stay, the tip is at the new one."""
    conversation = store.create_conversation(principal="local")
    first = say(store, conversation, "Hi", "One")
    question = load(store, conversation).for_regeneration().tip
    row = begin(store, conversation, None, expected_tip=first, parent=question)
    assert (row.question, load(store, conversation).tip) == (question, question)
    second = finish(store, row.id, "Two")
    assert [m.id for m in store.path(second, principal="local")] == [question, second]
    assert [m.id for m in store.path(first, principal="local")] == [question, first]
    before = store.path(first, principal="local")
    again = begin(store, conversation, None, expected_tip=second, parent=question)
    assert finish(store, again.id, "One") == first, "an identical answer is the same node"
    assert store.path(first, principal="local") == before, "and keeps the time at which it was made"


def test_edit_and_undo(store: Store) -> None:
    """An edit begins a branch at the turn's parent; an undo moves back; nothing is erased."""
    conversation = store.create_conversation(principal="local", system="S")
    for number in (1, 2, 3):
        say(store, conversation, f"Q{number}", f"A{number}")
    old = load(store, conversation)
    row = begin(store, conversation, "Q2b", parent=old.before_turn(2).tip)
    finish(store, row.id, "A2b")
    edited = load(store, conversation)
    assert [m.text for m in edited.messages] == ["S", "Q1", "A1", "Q2b", "A2b"]
    assert store.path(old.tip, principal="local") == list(old.messages)
    for left in (["S", "Q1", "A1"], ["S"]):
        now = load(store, conversation)
        store.move_tip(
            conversation, expected=now.tip, new=now.before_last_turn().tip, principal="local"
        )
        assert [m.text for m in load(store, conversation).messages] == left
    store.move_tip(
        conversation, expected=load(store, conversation).tip, new=old.tip, principal="local"
    )
    assert load(store, conversation) == old


def test_parent_must_be_the_conversations(store: Store) -> None:
    """Neither a turn nor a move leads into another conversation, or before the system message."""
    foreign = say(store, store.create_conversation(principal="local"), "Private", "Secret")
    conversation = store.create_conversation(principal="local", system="S")
    say(store, conversation)
    tip = store.conversation(conversation, principal="local").tip
    for parent in (foreign, "msg_X"):
        with pytest.raises(InvalidRequest, match=f"has no message '{parent}'"):
            begin(store, conversation, parent=parent)
        with pytest.raises(InvalidRequest, match=f"has no message '{parent}'"):
            store.move_tip(conversation, expected=tip, new=parent, principal="local")
    with pytest.raises(InvalidRequest, match="begins with its system message"):
        begin(store, conversation, parent=None)
    with pytest.raises(InvalidRequest, match="begins with its system message"):
        store.move_tip(conversation, expected=tip, new=None, principal="local")
    assert store.conversation(conversation, principal="local").tip == tip


def test_regenerate_needs_a_question(store: Store) -> None:
    """Only a user's message can be answered again."""
    conversation = store.create_conversation(principal="local")
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="is not a user's"):
            begin(store, conversation, None)
        say(store, conversation)


# Sharing


def test_shared_prefix_is_shared(store: Store, path: Path) -> None:
    """Conversations that begin alike share the rows; what follows does not mix."""
    tips = []
    for last in ("A", "B"):
        conversation = store.create_conversation(principal="local", system="S")
        say(store, conversation, "Hi", "Hello")
        tips.append(say(store, conversation, "And?", last))
    assert [m.id for m in store.path(tips[0], principal="local")][:4] == [
        m.id for m in store.path(tips[1], principal="local")
    ][:4]
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM message").fetchone() == (6,)
    connection.close()


def test_absolute_and_render_hash_make_other_nodes(store: Store) -> None:
    """The same text rendered otherwise is not the same node, and comes back as it was."""
    conversation = store.create_conversation(principal="local")
    made = set()
    for absolute, render_hash in ((False, "r"), (True, "r"), (True, "s")):
        user = NewMessage("Hi", (1,), absolute)
        row = begin(store, conversation, parent=None, user=user, render_hash=render_hash)
        finish(store, row.id)
        question, answer = load(store, conversation).messages
        assert (question.absolute, question.render_hash) == (absolute, render_hash)
        assert (answer.absolute, answer.render_hash) == (False, render_hash)
        made.add(question.id)
    assert len(made) == 3


def test_what_a_message_leaves_out_is_kept(store: Store) -> None:
    """It makes another node, and comes back with the path."""
    conversation = store.create_conversation(principal="local", system="Be brief.")
    say(store, conversation, "one")
    gap = LeftOut(messages=2, tokens=9)
    for left_out in (NOTHING, gap):
        user = NewMessage("two", (1, 2), True, left_out)
        parent = load(store, conversation).messages[2].id
        finish(store, begin(store, conversation, parent=parent, user=user).id)
        path = load(store, conversation)
        assert path.gap == path.messages[3].left_out == left_out
        assert path.messages[4].left_out == NOTHING
    assert [m.text for m in path.left_out] == ["one", "Hello"]


# Content


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(text="a\0b\0", ids=[0, 2**31 - 1], answer="👩‍👩‍👧 שלום ﷽ \r\n\x1b[2J")
@given(text=st.text(), ids=st.lists(st.integers(0, 2**31 - 1)), answer=st.text(min_size=1))
def test_content_round_trips(store: Store, text: str, ids: list[int], answer: str) -> None:
    """Whatever text and ids come in come out, partial or final."""
    conversation = store.create_conversation(principal="local", system=text, title=text)
    row = begin(store, conversation, text, tuple(ids))
    store.save_partial(row.id, Answer(answer, tuple(ids)))
    finish(store, row.id, answer, token_ids=tuple(ids))
    system, user, assistant = load(store, conversation).messages
    assert (system.text, user.text, assistant.text) == (text, text, answer)
    assert user.token_ids == assistant.token_ids == tuple(ids)
    assert store.conversation(conversation, principal="local").title == text


def test_large_message(store: Store) -> None:
    """Ten megabytes of text and 100,000 ids are one message like any other."""
    conversation = store.create_conversation(principal="local")
    text, ids = "0123456789 äöü €" * 600_000, tuple(range(100_000))
    row = begin(store, conversation, text, ids)
    store.save_partial(row.id, Answer(text, ids))
    finish(store, row.id, text, token_ids=ids)
    for message in load(store, conversation).messages:
        assert (message.text, message.token_ids) == (text, ids)


def test_deep_path(store: Store) -> None:
    """A path of 10,000 messages is read whole, and goes on."""
    conversation = store.create_conversation(principal="local")
    ids = []
    place = Place("local", searchable=True)
    with store._file.writing() as db:
        parent = None
        for depth in range(10_000):
            role = "assistant" if depth % 2 else "user"
            parent = insert_message(db, place, parent=parent, role=role, text=f"{depth}")
            ids.append(parent)
        db.table("conversation").update(conversation, {"tip": parent})
    path = load(store, conversation)
    assert [message.id for message in path.messages] == ids
    row = begin(store, conversation, "An edit", parent=path.before_turn(2).tip)
    assert [message.text for message in store.path(row.question, principal="local")] == [
        "0",
        "1",
        "An edit",
    ]


def test_path_of_an_unknown_message(store: Store) -> None:
    """A message that the file does not have is an error; no message is an empty path."""
    assert store.path(None, principal="local") == []
    with pytest.raises(StoreError, match="'msg_X'"):
        store.path("msg_X", principal="local")


def test_rows_are_values(store: Store) -> None:
    """What the store returns cannot be changed by whoever gets it."""
    row = store.conversation(store.create_conversation(principal="local"), principal="local")
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.tip = "msg_X"  # type: ignore[misc]  # that it cannot be is the test
