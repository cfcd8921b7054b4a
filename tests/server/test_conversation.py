"""Where a turn, an edit, a regeneration and an undo start from; the ids of a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest
from radixchat.server.conversation import Conversation
from radixchat.server.message import NOTHING, LeftOut, Message, NewMessage
from radixchat.server.store import Store
from radixchat.tests.server.turns import begin, load


def a_path(
    *nodes: tuple[str, tuple[int, ...]], absolute: frozenset[int] = frozenset()
) -> Conversation:
    """Messages named m0, m1, …, each the child of the one before; `absolute`: their indices."""
    return Conversation(
        "conv_1",
        tuple(
            Message(
                id=f"m{i}",
                parent=f"m{i - 1}" if i else None,
                role=role,
                text=f"{role} {i}",
                token_ids=ids,
                absolute=i in absolute,
                status="complete",
                render_hash="r",
                created_at=0.0,
            )
            for i, (role, ids) in enumerate(nodes)
        ),
    )


EMPTY = Conversation("conv_1", ())
TWO_TURNS = a_path(
    ("system", ()),
    ("user", (1, 2, 3)),
    ("assistant", (4, 5)),
    ("user", (6, 7)),
    ("assistant", (8,)),
    absolute=frozenset({1}),
)


def test_ids_are_joined() -> None:
    """The ids of a path are its messages' ids in order."""
    assert TWO_TURNS.token_ids == (1, 2, 3, 4, 5, 6, 7, 8)
    assert EMPTY.token_ids == ()


def test_ids_start_at_the_last_absolute_message() -> None:
    """A message that holds the whole prompt replaces the ids before it."""
    path = a_path(
        ("user", (1,)),
        ("assistant", (2,)),
        ("user", (9, 9, 3)),
        ("assistant", (4,)),
        absolute=frozenset({0, 2}),
    )
    assert path.token_ids == (9, 9, 3, 4)
    assert [message.id for message in path.since_absolute] == ["m2", "m3"]
    assert path.until("m1").token_ids == (1, 2)


def test_tip_and_system() -> None:
    """The tip is the last message; the system text is there only where the path has one."""
    assert (TWO_TURNS.tip, TWO_TURNS.system) == ("m4", "system 0")
    assert (EMPTY.tip, EMPTY.system) == (None, None)
    assert a_path(("user", ())).system is None


def test_last_user() -> None:
    """The user's last message is found whether it was answered or not."""
    assert TWO_TURNS.last_user is TWO_TURNS.messages[3]
    assert TWO_TURNS.until("m3").last_user is TWO_TURNS.messages[3]
    assert TWO_TURNS.until("m0").last_user is None


def test_edit_follows_what_preceded_the_turn() -> None:
    """The nth turn, counted from 1, is edited under the parent of its user message."""
    assert TWO_TURNS.user_message(1).id == "m1"
    assert TWO_TURNS.before_turn(1).tip == "m0"
    assert TWO_TURNS.before_turn(2).tip == "m2"
    assert a_path(("user", (1,))).before_turn(1) == EMPTY


@pytest.mark.parametrize("turn", [-1, 0, 3, 10**9])
def test_no_such_turn(turn: int) -> None:
    """A turn that does not exist is refused, with its number and how many there are."""
    with pytest.raises(InvalidRequest, match=rf"no turn {turn}: there are 2 turns"):
        TWO_TURNS.before_turn(turn)


def test_no_such_turn_counts_in_english() -> None:
    """One turn is "1 turn", none are "0 turns"."""
    with pytest.raises(InvalidRequest, match=r"there is 1 turn in"):
        a_path(("user", ())).user_message(2)
    with pytest.raises(InvalidRequest, match=r"there are 0 turns in"):
        EMPTY.user_message(1)


def test_regeneration_ends_with_the_question() -> None:
    """Another answer follows the user's last message, also where there was no answer yet."""
    assert TWO_TURNS.for_regeneration().tip == "m3"
    assert TWO_TURNS.until("m3").for_regeneration().tip == "m3"


def test_undo_leads_before_the_last_user_message() -> None:
    """An undo takes off the last user message and its answer, and stops at the system message."""
    once = TWO_TURNS.before_last_turn()
    assert once.tip == "m2"
    assert once.before_last_turn().tip == "m0"
    assert TWO_TURNS.until("m3").before_last_turn().tip == "m2"


@pytest.mark.parametrize("path", [EMPTY, TWO_TURNS.until("m0")])
def test_nothing_to_regenerate_or_undo(path: Conversation) -> None:
    """Before the first turn both are refused, and say so."""
    with pytest.raises(InvalidRequest, match="nothing to regenerate"):
        path.for_regeneration()
    with pytest.raises(InvalidRequest, match="nothing to undo"):
        path.before_last_turn()


def test_until_refuses_a_message_elsewhere() -> None:
    """Only a message on the path can be its end."""
    with pytest.raises(InvalidRequest, match="'m9' is not on the path of conversation conv_1"):
        TWO_TURNS.until("m9")


def test_a_broken_path_is_a_bug() -> None:
    """A path that does not start at a root, or skips a message, is caught at birth."""
    with pytest.raises(AssertionError, match="root"):
        Conversation("conv_1", TWO_TURNS.messages[1:])
    with pytest.raises(AssertionError):
        Conversation("conv_1", TWO_TURNS.messages[:1] + TWO_TURNS.messages[2:])


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.tuples(st.integers(0, 9)))))
def test_every_cut_is_a_prefix(nodes: list[tuple[str, tuple[int, ...]]]) -> None:
    """Whatever the roles, what an edit follows is a prefix of the path, and so are its ids."""
    path = a_path(*nodes)
    users = [i for i, (role, _) in enumerate(nodes) if role == "user"]
    assert [message.id for message in path.user_messages] == [f"m{i}" for i in users]
    for turn, index in enumerate(users, start=1):
        cut = path.before_turn(turn)
        assert cut.messages == path.messages[:index]
        assert cut.token_ids == path.token_ids[:index]


def test_a_question_has_the_id_that_the_store_gives_it(store: Store) -> None:
    """What is said of a message before it is stored names it as afterwards."""
    conversation = store.create_conversation(principal="local", system="Be brief.")
    message = NewMessage("Hi", (1, 2), absolute=True)
    said = load(store, conversation).said(message, "r")
    begin(store, conversation, user=message)
    assert said.tip == load(store, conversation).tip
    assert said.token_ids == (1, 2)


@pytest.mark.parametrize("system", [False, True])
def test_what_the_ids_are_without(system: bool) -> None:
    """The oldest messages after the system message, from the one on that leaves them out."""
    nodes = [("user", (1,)), ("assistant", (2,)), ("user", (3,)), ("assistant", (4,))]
    whole = a_path(*([("system", ())] if system else []), *nodes)
    assert (whole.gap, whole.left_out, whole.shown) == (NOTHING, (), whole.messages)
    gap = LeftOut(2, 2)
    path = whole.said(NewMessage("More", (7, 8), True, gap), "r")
    later = path.said(NewMessage("Then", (9,)), "r")
    for one in (path, later):
        assert one.gap == gap
        assert one.left_out == one.messages[system : 2 + system]
        assert one.shown == (*one.messages[:system], *one.messages[2 + system :])
    assert later.token_ids == (7, 8, 9)
    assert later.until(whole.tip).gap == NOTHING
    assert later.without(0) == later.messages
    again = later.said(NewMessage("Anew", (5,), True), "r")
    assert (again.gap, again.shown) == (NOTHING, again.messages)
