"""Full-text search over a store: what is found, in which conversation, and by what query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest
from radixchat.server.store import Store
from radixchat.server.views import SearchHit
from radixchat.tests.server.turns import ME, counts, load, say


def found(store: Store, query: str, limit: int = 20) -> list[SearchHit]:
    return store.search(query, principal=ME, limit=limit)


def test_a_hit(store: Store) -> None:
    """Who said it, where, and the words in their sentence."""
    conversation = store.create_conversation(principal=ME, title="Kitchen", system="Cook.")
    answer = say(store, conversation, "How long do eggs take?", "Eight minutes for hard eggs.")
    assert found(store, "eggs minutes") == [
        SearchHit(
            conversation,
            "Kitchen",
            answer,
            "assistant",
            "Eight \u00abminutes\u00bb for hard \u00abeggs\u00bb.",
        )
    ]
    assert {hit.role for hit in found(store, "egg")} == {"user", "assistant"}
    assert [hit.role for hit in found(store, "cook")] == ["system"]
    assert found(store, '"hard minutes"') == []
    assert found(store, "") == []
    assert found(store, "?!") == []


@pytest.mark.parametrize("query", ["zurich", "ZÜRICH", "Zürich", "zür", "東京", "京タ", "タワー"])
def test_words_of_many_scripts(store: Store, query: str) -> None:
    """Case and accents do not matter, nor that a script has no spaces."""
    say(store, store.create_conversation(principal=ME), "Von Zürich nach 東京タワー", "Weit.")
    assert [hit.role for hit in found(store, query)] == ["user"]


def test_a_message_of_several_conversations_is_one_hit(store: Store) -> None:
    """Of the one that is at it, else of the one used last."""
    trunk = store.create_conversation(principal=ME, title="trunk")
    shared = say(store, trunk, "needle", "well")
    fork = store.create_conversation(principal=ME, title="fork", tip=shared)
    assert [hit.title for hit in found(store, "needle")] == ["trunk"]
    say(store, fork, "and on", "yes")
    assert [hit.title for hit in found(store, "needle")] == ["fork"]
    tip = store.conversation(fork, principal=ME).tip
    store.move_tip(fork, principal=ME, expected=tip, new=None)
    assert [hit.title for hit in found(store, "needle")] == ["trunk"]
    store.delete_conversation(trunk, principal=ME)
    assert [hit.title for hit in found(store, "needle")] == ["fork"]
    store.delete_conversation(fork, principal=ME)
    assert found(store, "needle") == []


def test_the_best_come_first_and_the_limit_holds(store: Store) -> None:
    """What only a conversation that is not listed still has takes no place."""
    hidden = store.create_conversation(principal=ME, listed=False)
    listed = store.create_conversation(principal=ME)
    for number in range(5):
        say(store, listed, f"needle needle {number}", "no")
    tip = store.conversation(listed, principal=ME).tip
    say(store, hidden, "aside", "no")
    fork = store.create_conversation(principal=ME, listed=False, tip=tip)
    other = store.create_conversation(principal=ME)
    say(store, other, "a needle in a long sentence about hay and more hay", "no")
    assert len(found(store, "needle")) == 6
    assert found(store, "needle", 6)[-1].conversation == other
    assert len(found(store, "needle", 4)) == 4
    store.delete_conversation(listed, principal=ME)
    assert load(store, fork).messages
    assert [hit.conversation for hit in found(store, "needle", 1)] == [other]
    for limit in (0, 101):
        with pytest.raises(InvalidRequest, match="limit"):
            found(store, "needle", limit)


def test_edits_and_statuses_are_found_too(store: Store) -> None:
    """A branch that was left stays searchable; a conversation that is not kept never is."""
    conversation = store.create_conversation(principal=ME)
    say(store, conversation, "first wording", "no")
    store.move_tip(
        conversation,
        principal=ME,
        expected=store.conversation(conversation, principal=ME).tip,
        new=None,
    )
    say(store, conversation, "second wording", "no")
    assert len(found(store, "wording")) == 2
    passing = store.create_conversation(principal=ME, kept=False)
    say(store, passing, "third wording", "no")
    assert len(found(store, "wording")) == 2
    assert counts(store)["message_fts_docsize"] == 4


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with one turn."""
    with Store(Path(tmp_path_factory.mktemp("search")) / "s.db") as store:
        say(store, store.create_conversation(principal=ME), "a b AND c NEAR d", "\u4f60\u597d")
        yield store


@given(query=st.text(max_size=60) | st.text(alphabet='"*()^-+:{}\\\0 aANDOR\u4f60', max_size=40))
@example(query='"')
@example(query='a"*')
@example(query="text : a")
@example(query="{text} : (a OR b)")
@example(query="NEAR(a b, 3)")
@example(query="NOT")
@example(query="\U0001f600\u0345\u1d7d8")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_hostile_queries(full: Store, query: str) -> None:
    """Whatever is asked is an answer, and every hit has all of the words."""
    for hit in found(full, query):
        assert hit.snippet
    assert found(full, "NEAR d")
