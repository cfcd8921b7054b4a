"""What deleting takes with it, what it leaves, and which tokens it says are to be forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.errors import ConversationLocked, ConversationNotFound, ResponseNotFound
from radixchat.server.message import NewMessage
from radixchat.server.rows import ForgottenPath
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, change, counts, finish, load, say, texts


def ids(*said: str) -> tuple[int, ...]:
    return tuple("".join(said).encode())


def test_nothing_is_left_of_a_conversation(store: Store) -> None:
    """Its branches, responses, events, words; all its tokens are to be forgotten."""
    conversation = store.create_conversation(principal=ME, system="S")
    first = say(store, conversation, "Q1", "A1")
    say(store, conversation, "Q2", "A2")
    row = begin(store, conversation, "Q3", tuple(b"Q3"), parent=first, event=("e", "d"))
    finish(store, row.id, "A3")
    forgotten = store.delete_conversation(conversation, principal=ME)
    assert set(forgotten) == {
        ForgottenPath(ids("Q1A1", "Q2A2"), 0),
        ForgottenPath(ids("Q1A1", "Q3A3"), 0),
    }
    assert set(counts(store).values()) == {0}
    with pytest.raises(ConversationNotFound):
        store.delete_conversation(conversation, principal=ME)


def test_what_another_conversation_has_stays(store: Store) -> None:
    """The tokens to be forgotten begin where the paths part."""
    trunk = store.create_conversation(principal=ME, system="S")
    first = say(store, trunk, "Q1", "A1")
    say(store, trunk, "Q2", "A2")
    fork = store.create_conversation(principal=ME, tip=first)
    path = load(store, fork)
    assert store.delete_conversation(trunk, principal=ME) == [
        ForgottenPath(ids("Q1A1", "Q2A2"), len(ids("Q1A1")))
    ]
    assert load(store, fork) == path
    assert [m.text for m in store.tree(fork, principal=ME)] == ["S", "Q1", "A1"]
    say(store, fork, "Q2", "A2")
    assert store.delete_conversation(fork, principal=ME) == [ForgottenPath(ids("Q1A1Q2A2"), 0)]
    assert set(counts(store).values()) == {0}


def test_a_whole_prompt_shares_the_tokens_that_are_equal(store: Store) -> None:
    """Of a message whose ids are the whole prompt, those before it are another path."""
    conversation = store.create_conversation(principal=ME)
    first = say(store, conversation, "Q1", "A1")
    user = NewMessage("Q2", ids("Q1A1", "Q2"), absolute=True)
    finish(store, begin(store, conversation, user=user).id, "A2")
    user = NewMessage("Q2", ids("Q1", "Q2"), absolute=True)
    finish(store, begin(store, conversation, user=user, parent=first).id, "A2")
    kept = store.create_conversation(principal=ME, tip=first)
    assert set(store.delete_conversation(conversation, principal=ME)) == {
        ForgottenPath(ids("Q1A1", "Q2A2"), len(ids("Q1A1"))),
        ForgottenPath(ids("Q1", "Q2A2"), len(ids("Q1"))),
    }
    assert texts(store, kept) == ["Q1", "A1"]


def test_messages_without_ids_have_no_tokens_to_forget(store: Store) -> None:
    """What was grafted was part of a prompt only with the turn after it."""
    conversation = store.create_conversation(principal=ME)
    tip = say(store, conversation, "Q1", "A1")
    said = [("user", "aside"), ("assistant", "well")]
    store.graft(conversation, principal=ME, messages=said, expected_tip=tip)
    assert store.delete_conversation(conversation, principal=ME) == [ForgottenPath(ids("Q1A1"), 0)]
    empty = store.create_conversation(principal=ME, system="S")
    assert store.delete_conversation(empty, principal=ME) == []
    assert set(counts(store).values()) == {0}


def test_an_undone_graft_goes_with_its_conversation(store: Store) -> None:
    """No tip and no response is at it, and yet it is not left behind."""
    conversation = store.create_conversation(principal=ME)
    tip = say(store, conversation)
    new = store.graft(conversation, principal=ME, messages=[("user", "x")], expected_tip=tip)
    store.move_tip(conversation, principal=ME, expected=new, new=tip)
    store.delete_conversation(conversation, principal=ME)
    assert set(counts(store).values()) == {0}


def test_what_runs_is_not_deleted(store: Store, path: Path) -> None:
    """Neither it nor its conversation; of a process that is gone it can be."""
    conversation = store.create_conversation(principal=ME, listed=False)
    row = begin(store, conversation)
    with pytest.raises(ConversationLocked):
        store.delete_conversation(conversation, principal=ME)
    with pytest.raises(ConversationLocked):
        store.delete_response(row.id, principal=ME)
    change(path, "UPDATE response SET owner = 'flock_gone'")
    store.delete_response(row.id, principal=ME)
    assert set(counts(store).values()) == {0}


def test_a_response_of_a_listed_conversation(store: Store) -> None:
    """What the path shows stays; a branch that only the response had is gone."""
    conversation = store.create_conversation(principal=ME)
    first = say(store, conversation, "Q1", "A1")
    say(store, conversation, "Q2", "A2")
    other = begin(store, conversation, "Q2b", tuple(b"Q2b"), parent=first)
    finish(store, other.id, "A2b")
    responses = store.responses_of(conversation, principal=ME)
    assert store.delete_response(responses[2].id, principal=ME) == []
    assert texts(store, conversation) == ["Q1", "A1", "Q2b", "A2b"]
    forgotten = store.delete_response(responses[1].id, principal=ME)
    assert forgotten == [ForgottenPath(ids("Q1A1", "Q2A2"), len(ids("Q1A1")))]
    assert [m.text for m in store.tree(conversation, principal=ME)] == ["Q1", "A1", "Q2b", "A2b"]
    with pytest.raises(ResponseNotFound):
        store.delete_response(responses[1].id, principal=ME)


def test_responses_of_a_conversation_that_is_not_listed(store: Store) -> None:
    """The last one takes its text with it, the only one its conversation."""
    conversation = store.create_conversation(principal=ME, listed=False)
    say(store, conversation, "Q1", "A1")
    say(store, conversation, "Q2", "A2")
    first, second = store.responses_of(conversation, principal=ME)
    assert store.delete_response(second.id, principal=ME) == [
        ForgottenPath(ids("Q1A1", "Q2A2"), len(ids("Q1A1")))
    ]
    assert texts(store, conversation) == ["Q1", "A1"]
    store.delete_response(first.id, principal=ME)
    assert set(counts(store).values()) == {0}


def test_a_long_conversation_is_deleted(store: Store) -> None:
    """Iteratively: a path of 3,000 messages is no recursion."""
    conversation = store.create_conversation(principal=ME)
    said = [("user" if n % 2 else "assistant", str(n)) for n in range(3000)]
    store.graft(conversation, principal=ME, messages=said, expected_tip=None)
    store.delete_conversation(conversation, principal=ME)
    assert set(counts(store).values()) == {0}


def test_what_is_not_kept_goes_with_its_process(path: Path) -> None:
    """When it is closed; another process that opens the file meanwhile leaves it alone."""
    with Store(path) as store:
        unkept = store.create_conversation(principal=ME, kept=False)
        begin(store, unkept, "a passing remark")
        kept = store.create_conversation(principal=ME, listed=False)
        say(store, kept)
        with Store(path) as other:
            assert texts(other, unkept) == ["a passing remark"]
            assert other.search("passing", principal=ME, limit=5) == []
    with Store(path) as store:
        assert counts(store)["conversation"] == 1
        assert texts(store, kept) == ["Hi", "Hello"]
        with pytest.raises(ConversationNotFound):
            store.conversation(unkept, principal=ME)
        assert store.verify() == []


def test_what_is_not_kept_and_deleted_is_not_deleted_again(path: Path) -> None:
    """Closing finds it gone."""
    with Store(path) as store:
        unkept = store.create_conversation(principal=ME, kept=False)
        say(store, unkept)
        store.delete_conversation(unkept, principal=ME)
    with Store(path) as store:
        assert set(counts(store).values()) == {0}


def test_what_was_made_for_a_turn_that_never_began_goes_after_a_day(path: Path) -> None:
    """A listed one stays: somebody has made it to use it later."""
    with Store(path) as store:
        listed = store.create_conversation(principal=ME)
        unlisted = store.create_conversation(principal=ME, listed=False, system="S")
        used = store.create_conversation(principal=ME, listed=False)
        say(store, used)
    with Store(path) as store:
        store.conversation(unlisted, principal=ME)
    change(path, "UPDATE conversation SET updated_at = updated_at - 86401")
    with Store(path) as store:
        with pytest.raises(ConversationNotFound):
            store.conversation(unlisted, principal=ME)
        store.conversation(listed, principal=ME)
        store.conversation(used, principal=ME)
        assert store.verify() == []
