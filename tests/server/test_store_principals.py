"""Several principals in one file: nobody finds, changes or deletes what is another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radixchat.engine.errors import ConversationNotFound, InvalidRequest, ResponseNotFound
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, counts, load, say


def test_nothing_of_anothers_is_found(store: Store) -> None:
    """Whatever takes an id says of another's what it says of one that is nobody's."""
    theirs = store.create_conversation(principal="ada", title="Private")
    answer = say(store, theirs, "a secret word", principal="ada")
    (response,) = store.responses_of(theirs, principal="ada")
    mine = store.create_conversation(principal="bob")
    say(store, mine, "mine", principal="bob")
    tip = store.conversation(mine, principal="bob").tip
    bob: dict[str, Any] = {"principal": "bob"}
    conversation_uses: list[Callable[[str], object]] = [
        lambda id_: store.conversation(id_, **bob),
        lambda id_: store.conversations(limit=5, after=id_, **bob),
        lambda id_: store.update_conversation(id_, title="Taken", **bob),
        lambda id_: store.move_tip(id_, expected=None, new=None, **bob),
        lambda id_: store.graft(id_, messages=[("user", "a")], expected_tip=None, **bob),
        lambda id_: store.tree(id_, **bob),
        lambda id_: store.responses_of(id_, **bob),
        lambda id_: store.delete_conversation(id_, **bob),
        lambda id_: store.export(id_, kind="json", **bob),
        lambda id_: begin_as_bob(store, id_),
    ]
    response_uses: list[Callable[[str], object]] = [
        lambda id_: store.response(id_, **bob),
        lambda id_: store.reopen_response(id_, **bob),
        lambda id_: store.delete_response(id_, **bob),
    ]
    message_uses: list[Callable[[str], object]] = [
        lambda id_: store.create_conversation(tip=id_, **bob),
        lambda id_: store.reroot(id_, system=None, **bob),
        lambda id_: store.move_tip(mine, expected=tip, new=id_, **bob),
        lambda id_: begin(store, mine, "under it", parent=id_, **bob),
        lambda id_: begin(store, mine, None, parent=id_, **bob),
    ]
    before = counts(store)
    for error, uses, existing, unknown in (
        (ConversationNotFound, conversation_uses, theirs, "conv_X"),
        (ResponseNotFound, response_uses, response.id, "resp_X"),
        (InvalidRequest, message_uses, answer, "msg_X"),
    ):
        for use in uses:
            said = []
            for id_ in (existing, unknown):
                with pytest.raises(error) as refused:
                    use(id_)
                said.append(str(refused.value).replace(id_, "ID"))
            assert said[0] == said[1]
    with pytest.raises(ConversationNotFound):
        store.resolve(theirs, principal="bob")
    assert store.search("secret", principal="bob", limit=5) == []
    assert counts(store) == before
    assert store.conversation(theirs, principal="ada").title == "Private"


def begin_as_bob(store: Store, conversation: str) -> None:
    store.begin_response(
        conversation=conversation,
        expected_tip=None,
        parent=None,
        user=None,
        options={},
        render_hash="r",
        principal="bob",
    )


def test_equal_words_are_one_row_and_two_holdings(store: Store) -> None:
    """Each has them since he said them; when one forgets them the other keeps them."""
    ada, bob = (store.create_conversation(principal=name, system="S") for name in ("ada", "bob"))
    tips = [say(store, ada, principal="ada"), say(store, bob, principal="bob")]
    assert tips[0] == tips[1]
    assert (counts(store)["message"], counts(store)["holding"]) == (3, 6)
    first, second = (load(store, id_, name).messages for id_, name in ((ada, "ada"), (bob, "bob")))
    assert all(a.created_at < b.created_at for a, b in zip(first, second, strict=True))
    assert len(store.search("Hello", principal="bob", limit=5)) == 1
    store.delete_conversation(ada, principal="ada")
    assert (counts(store)["message"], counts(store)["holding"]) == (3, 3)
    assert load(store, bob, "bob").messages == second
    assert store.search("Hello", principal="ada", limit=5) == []
    assert len(store.search("Hello", principal="bob", limit=5)) == 1


def test_lists_show_ones_own_listed_conversations(store: Store) -> None:
    """The last used, a prefix, a list, a search: none leads to what is not listed."""
    unlisted = store.create_conversation(principal="ada", listed=False)
    say(store, unlisted, "hidden words", principal="ada")
    assert store.latest(principal="ada") is None
    assert store.conversations(principal="ada", limit=5) == []
    assert store.search("hidden", principal="ada", limit=5) == []
    with pytest.raises(ConversationNotFound):
        store.resolve(unlisted, principal="ada")
    listed = store.create_conversation(principal="ada")
    say(store, listed, principal="ada")
    say(store, unlisted, principal="ada")
    assert store.latest(principal="ada") == listed
    assert [row.id for row in store.conversations(principal="ada", limit=5)] == [listed]
    assert store.resolve(listed, principal="ada") == listed


def test_a_conversation_is_seen_as_it_is(store: Store) -> None:
    """Turns, what runs, title and metadata; a renamed one keeps its place in the list."""
    conversation = store.create_conversation(
        principal="ada", system="S", title="T", metadata={"topic": "tea"}
    )
    view = store.conversation(conversation, principal="ada").view()
    assert (view.title, view.system, view.num_turns, view.running) == ("T", "S", 0, None)
    assert view.metadata == {"topic": "tea"}
    say(store, conversation, principal="ada")
    running = begin(store, conversation, principal="ada")
    used = store.conversation(conversation, principal="ada").updated_at
    row = store.update_conversation(conversation, principal="ada", title="Ü")
    assert (row.title, row.metadata) == ("Ü", {"topic": "tea"})
    row = store.update_conversation(conversation, principal="ada", metadata={})
    assert (row.title, row.metadata, row.num_turns, row.running) == ("Ü", {}, 2, running.id)
    assert row.updated_at == used
    with pytest.raises(InvalidRequest, match="metadata holds text only"):
        store.update_conversation(conversation, principal="ada", metadata=wrong({"a": 1}))


def wrong(metadata: Any) -> Any:
    return metadata


def test_pages_of_the_list(store: Store) -> None:
    """The last changed first; each page goes on after the last row of the one before."""
    made = [store.create_conversation(principal="ada", title=str(n)) for n in range(7)]
    say(store, made[2], principal="ada")
    expected = [made[2], *(id_ for id_ in reversed(made) if id_ != made[2])]
    found: list[str] = []
    while len(found) < 7:
        after = found[-1] if found else None
        page = store.conversations(principal="ada", limit=3, after=after)
        found += [row.id for row in page]
    assert found == expected
    assert store.conversations(principal="ada", limit=3, after=found[-1]) == []


def test_the_secret_is_made_once(store: Store) -> None:
    """What namespaces are derived from outlives the process."""
    secret = store.secret()
    assert len(secret) == 32
    with Store(store._file.path) as other:
        assert other.secret() == secret == store.secret()
