"""Turns that are asked for twice, that only warm the cache, and that are gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import (
    ConversationLocked,
    ConversationNotFound,
    IdempotencyConflict,
    InvalidRequest,
    ResponseNotFound,
)
from radixchat.server.message import Answer, NewMessage, message_id
from radixchat.server.rows import BegunResponse, Outcome
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, change, counts, finish, load, say, texts


def ask(store: Store, conversation: str, event: tuple[str, str], **changes: Any) -> BegunResponse:
    """A turn under the tip that there was at first: what a client sends again."""
    arguments: dict[str, Any] = {
        "expected_tip": None,
        "parent": None,
        "user": NewMessage("Hi", (1, 2)),
        "options": {},
        "render_hash": "r",
        "principal": ME,
    }
    return store.begin_response(conversation=conversation, event=event, **arguments | changes)


def test_an_event_begins_one_response(store: Store) -> None:
    """The same again, while it runs and when it has ended, is that response."""
    conversation = store.create_conversation(principal=ME)
    first = ask(store, conversation, ("e1", "digest"))
    assert not first.replayed
    for _ in range(2):
        again = ask(store, conversation, ("e1", "digest"))
        assert again == BegunResponse(
            first.id, True, conversation, first.question, first.created_at
        )
        assert store.begun_by("e1", "digest", principal=ME) == again
        finish(store, first.id)
    assert len(store.responses_of(conversation, principal=ME)) == 1
    assert store.begun_by("e2", "digest", principal=ME) is None


def test_an_event_with_other_content_is_a_conflict(store: Store) -> None:
    """So it is refused, and nothing is stored; of another principal it is another event."""
    conversation = store.create_conversation(principal=ME)
    ask(store, conversation, ("e1", "digest"))
    before = counts(store)
    with pytest.raises(IdempotencyConflict, match="'e1'"):
        ask(store, conversation, ("e1", "other"))
    with pytest.raises(IdempotencyConflict):
        store.begun_by("e1", "other", principal=ME)
    assert counts(store) == before
    theirs = store.create_conversation(principal="ada")
    assert not ask(store, theirs, ("e1", "other"), principal="ada").replayed


def test_an_event_is_forgotten_after_a_day(store: Store, path: Path) -> None:
    """Then it may begin something else, and the old ones are gone from the file."""
    conversation = store.create_conversation(principal=ME)
    begun = ask(store, conversation, ("e1", "digest"))
    finish(store, begun.id)
    change(path, "UPDATE idempotency SET created_at = created_at - 86401")
    assert store.begun_by("e1", "other", principal=ME) is None
    tip = store.conversation(conversation, principal=ME).tip
    again = ask(store, conversation, ("e1", "other"), expected_tip=tip, parent=tip)
    assert not again.replayed
    assert counts(store)["idempotency"] == 1


def test_a_refused_turn_leaves_its_event_free(store: Store) -> None:
    """Event and turn are one transaction."""
    conversation = store.create_conversation(principal=ME)
    begin(store, conversation)
    with pytest.raises(ConversationLocked):
        ask(store, conversation, ("e1", "digest"))
    with pytest.raises(ConversationNotFound):
        ask(store, "conv_X", ("e1", "digest"))
    assert store.begun_by("e1", "digest", principal=ME) is None


def test_what_is_added_before_a_question_is_one_transaction_with_it(store: Store) -> None:
    """Refused together, and not added twice by an event that is sent again."""
    conversation = store.create_conversation(principal=ME)
    arguments: dict[str, Any] = {"added": [("system", "S"), ("assistant", "Hello!")]}
    with pytest.raises(InvalidRequest, match="has no message 'msg_X'"):
        ask(store, conversation, ("e1", "d"), parent="msg_X", **arguments)
    assert counts(store)["message"] == 0
    root = message_id(
        parent=None,
        role="system",
        text="S",
        token_ids=(),
        absolute=False,
        status="complete",
        render_hash="",
    )
    parent = message_id(
        parent=root,
        role="assistant",
        text="Hello!",
        token_ids=(),
        absolute=False,
        status="complete",
        render_hash="",
    )
    begun = ask(store, conversation, ("e1", "d"), parent=parent, **arguments)
    assert texts(store, conversation) == ["S", "Hello!", "Hi"]
    assert store.conversation(conversation, principal=ME).system == "S"
    finish(store, begun.id)
    again = ask(store, conversation, ("e1", "d"), parent=parent, **arguments)
    assert (again.id, again.replayed) == (begun.id, True)
    assert texts(store, conversation) == ["S", "Hello!", "Hi", "Hello"]


def test_what_a_turn_is_told_is_kept(store: Store) -> None:
    """What it goes on from, instructions, metadata, the number of its log."""
    conversation = store.create_conversation(principal=ME)
    row = begin(
        store,
        conversation,
        previous_response="resp_X",
        instructions="Be brief.",
        metadata={"a": "ä"},
    )
    assert (row.previous_response, row.instructions) == ("resp_X", "Be brief.")
    assert (row.metadata, row.sequence) == ({"a": "ä"}, 0)
    store.save_partial(row.id, Answer("Hel", (1,)), 64)
    assert store.response(row.id, principal=ME).sequence == 64
    store.finish_response(row.id, Outcome("completed", answer=Answer("Hello", (1, 2)), sequence=9))
    assert store.response(row.id, principal=ME).sequence == 9


def test_a_warm_up_has_no_answer(store: Store) -> None:
    """Any message may be its question; the tip is where the conversation goes on."""
    conversation = store.create_conversation(principal=ME, system="S")
    answer = say(store, conversation)
    warm: dict[str, Any] = {"options": {"generate": False}}
    for parent in (answer, load(store, conversation).messages[0].id):
        row = begin(store, conversation, None, parent=parent, **warm)
        assert finish(store, row.id, "") is None
        assert store.response(row.id, principal=ME).status == "completed"
        assert store.conversation(conversation, principal=ME).tip == answer
    row = begin(store, conversation, "typed ahead", **warm)
    assert finish(store, row.id, "") is None
    assert texts(store, conversation) == ["S", "Hi", "Hello", "typed ahead"]
    with pytest.raises(InvalidRequest, match="is not a user's"):
        begin(store, conversation, None, parent=answer)
    with pytest.raises(InvalidRequest, match="is not a user's"):
        begin(store, conversation, None, parent=None, **warm)


def killed(path: Path, text: str | None = "Hel", **changes: Any) -> tuple[str, str]:
    """A conversation, and its response, whose process ended in mid-answer."""
    with Store(path) as store:
        conversation = store.create_conversation(principal=ME, system="S")
        row = begin(store, conversation, **changes)
        if text is not None:
            store.save_partial(row.id, Answer(text, tuple(text.encode())), 7)
    return conversation, row.id


def test_a_killed_response_goes_on(path: Path) -> None:
    """It has what it had, the partial message is gone, and it ends as if nothing had been."""
    conversation, response = killed(path)
    with Store(path) as store:
        row = store.response(response, principal=ME)
        assert (row.status, row.reason) == ("incomplete", "server_shutdown")
        assert texts(store, conversation) == ["S", "Hi", "Hel"]
        row = store.reopen_response(response, principal=ME)
        assert (row.status, row.reason, row.answer) == ("in_progress", None, None)
        assert (row.saved, row.sequence) == (Answer("Hel", tuple(b"Hel")), 7)
        assert texts(store, conversation) == ["S", "Hi"]
        assert store.search("Hel", principal=ME, limit=5) == []
        assert (counts(store)["message"], counts(store)["message_fts_docsize"]) == (2, 2)
        with pytest.raises(ConversationLocked):
            begin(store, conversation)
        answer = finish(store, response, "Hello")
        assert texts(store, conversation) == ["S", "Hi", "Hello"]
        assert store.conversation(conversation, principal=ME).tip == answer
        assert [m.text for m in store.tree(conversation, principal=ME)] == ["S", "Hi", "Hello"]
        assert store.verify() == []


@pytest.mark.parametrize("text", [None, "Hel"])
def test_a_response_that_is_killed_again_is_recovered_again(path: Path, text: str | None) -> None:
    """Before its first token too."""
    conversation, response = killed(path, text)
    for _ in range(2):
        with Store(path) as store:
            row = store.reopen_response(response, principal=ME)
            assert row.saved.text == (text or "")
    with Store(path) as store:
        assert store.response(response, principal=ME).reason == "server_shutdown"
        assert texts(store, conversation) == ["S", "Hi", *([text] if text else [])]
        assert store.verify() == []


def test_a_response_goes_on_beside_what_was_said_since(path: Path) -> None:
    """Its answer becomes a branch; the partial one stays, for it was gone on from."""
    conversation, response = killed(path)
    with Store(path) as store:
        say(store, conversation, "And?", "Well.")
        store.reopen_response(response, principal=ME)
        with pytest.raises(ConversationLocked):
            store.reopen_response(response, principal=ME)
        finish(store, response, "Hello")
        assert texts(store, conversation) == ["S", "Hi", "Hel", "And?", "Well."]
        tree = store.tree(conversation, principal=ME)
        assert sorted(m.text for m in tree) == ["And?", "Hel", "Hello", "Hi", "S", "Well."]
        assert store.verify() == []


def test_a_regeneration_goes_on(path: Path) -> None:
    """One that came to nothing gave the old answer back; going on takes it away again."""
    with Store(path) as store:
        conversation = store.create_conversation(principal=ME)
        old = say(store, conversation)
        question = load(store, conversation).messages[0].id
        row = begin(store, conversation, None, parent=question)
    with Store(path) as store:
        assert store.conversation(conversation, principal=ME).tip == old
        store.reopen_response(row.id, principal=ME)
        assert store.conversation(conversation, principal=ME).tip == question
        finish(store, row.id, "", status="incomplete", reason="interrupted")
        assert store.conversation(conversation, principal=ME).tip == old


def test_what_cannot_go_on(store: Store) -> None:
    """What ended by itself, by a person or by an error; what does not exist."""
    conversation = store.create_conversation(principal=ME)
    ends: list[dict[str, Any]] = [
        {"status": "completed"},
        {"status": "incomplete", "reason": "interrupted"},
        {"status": "failed"},
    ]
    for end in ends:
        row = begin(store, conversation)
        with pytest.raises(ConversationLocked):
            store.reopen_response(row.id, principal=ME)
        finish(store, row.id, **end)
        with pytest.raises(InvalidRequest, match=f"is {end['status']}"):
            store.reopen_response(row.id, principal=ME)
    with pytest.raises(ResponseNotFound):
        store.reopen_response("resp_X", principal=ME)
