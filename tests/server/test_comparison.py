"""What a response can be compared with: which tokens it had computed, and whose it was."""

from __future__ import annotations

from typing import Any

from radixchat.server.comparison import Comparison, load_comparisons
from radixchat.server.message import NewMessage
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, finish, load, say


def compared(store: Store, conversation: str, **changes: Any) -> list[Comparison]:
    """What a new turn at the tip, but for the changes, can be compared with."""
    row = begin(store, conversation, "and?", (7, 8), **changes)
    path = load(store, conversation)
    assert path.tip == row.question
    return load_comparisons(store, row.id, "local", path)


def ended(store: Store, conversation: str, answer: tuple[int, ...], output_tokens: int) -> None:
    """A turn of prompt (1, 2) with that answer, of that many sampled tokens."""
    user = NewMessage("Hi", (1, 2), absolute=True)
    row = begin(store, conversation, user=user)
    usage = {"input_tokens": 2, "output_tokens": output_tokens}
    finish(store, row.id, "Hello", answer, usage=usage)


def test_a_first_turn_has_nothing_to_compare_with(store: Store) -> None:
    """Neither has one after a turn that failed, or that was stopped before its first token."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    finish(store, row.id, status="failed", error="it broke")
    row = begin(store, conversation)
    finish(store, row.id, "", (), status="incomplete")
    assert compared(store, conversation) == []


def test_the_last_sampled_token_has_no_kv(store: Store) -> None:
    """It is the stop token, which is not stored, or the last one of a cut answer."""
    for output_tokens, computed in ((4, (1, 2, 3, 4, 5)), (3, (1, 2, 3, 4))):
        conversation = store.create_conversation(principal="local")
        ended(store, conversation, (3, 4, 5), output_tokens)
        (comparison,) = compared(store, conversation)
        assert comparison.token_ids == computed
        assert comparison.num_tokens == len(computed)
        assert (comparison.render_hash, comparison.principal) == ("r", "local")
        assert comparison.here
        assert [message.text for message in comparison.path.messages] == ["Hi", "Hello"]


def test_what_was_shown_of_a_cut_token_has_no_kv(store: Store) -> None:
    """Two tokens were kept, the third was encoded of the first part of one with a stop text."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation, user=NewMessage("Hi", (1, 2), absolute=True))
    usage = {"input_tokens": 2, "output_tokens": 6, "output_tokens_details": {"kept_tokens": 2}}
    finish(store, row.id, "Hello", (3, 4, 5), usage=usage)
    (comparison,) = compared(store, conversation)
    assert (comparison.token_ids, comparison.num_tokens) == ((1, 2, 3, 4), 4)


def test_ids_that_another_model_made_are_not_known(store: Store) -> None:
    """Another model's answer to a stored question was rendered for once; its length is known."""
    conversation = store.create_conversation(principal="local")
    say(store, conversation)
    question = load(store, conversation).messages[0].id
    again = begin(store, conversation, None, parent=question, render_hash="other")
    usage = {"input_tokens": 9, "output_tokens": 3}
    finish(store, again.id, "Well", (3, 4, 5), usage=usage)
    (comparison,) = compared(store, conversation)
    assert (comparison.token_ids, comparison.num_tokens) == (None, 11)
    assert comparison.render_hash == "other"


def test_the_last_response_and_the_one_on_the_path(store: Store) -> None:
    """They differ after a return to an older branch; the last one comes first."""
    conversation = store.create_conversation(principal="local")
    first = say(store, conversation, "one", "first")
    say(store, conversation, "two", "second")
    tip = store.conversation(conversation, principal="local").tip
    store.move_tip(conversation, expected=tip, new=first, principal="local")
    last, own = compared(store, conversation)
    assert [message.text for message in last.path.messages] == ["one", "first", "two", "second"]
    assert [message.text for message in own.path.messages] == ["one", "first"]


def test_another_principal_is_not_compared_with(store: Store) -> None:
    """Equal words of somebody else's are one message, and still nobody else's business."""
    theirs = store.create_conversation(principal="ada")
    say(store, theirs, principal="ada")
    conversation = store.create_conversation(principal="local")
    assert store.conversation(theirs, principal="ada").tip == say(store, conversation)
    (comparison,) = compared(store, conversation)
    assert comparison.principal == "local"


def test_a_response_is_not_compared_with_itself(store: Store) -> None:
    """Nor is it when it has ended meanwhile."""
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    question = load(store, conversation)
    finish(store, row.id)
    assert load_comparisons(store, row.id, "local", question) == []
