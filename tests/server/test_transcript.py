"""A conversation as a JSON document: read back it is the same, changed it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import NewMessage
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, counts, finish, load, say

Document = dict[str, Any]


@pytest.fixture
def exported(store: Store) -> str:
    """A conversation with branches, a cut answer, a failed turn, a shortened prompt."""
    conversation = store.create_conversation(
        principal=ME, system="S\n\0\u2028", title="T \U0001f600", metadata={"a": "b"}
    )
    first = say(store, conversation, "Q1", "A1")
    row = begin(store, conversation, "Q2", metadata={"c": "d"}, previous_response="resp_X")
    finish(store, row.id, "A2", status="incomplete", reason="interrupted", error="no\udcff")
    user = NewMessage("Q2b", (1, 2, 3), absolute=True)
    finish(store, begin(store, conversation, user=user, parent=first).id, "", status="failed")
    say(store, conversation, "Q3", "A3")
    return store.export(conversation, principal=ME, kind="json")


def test_a_round_trip(exported: str, tmp_path: Path) -> None:
    """In another file: the same document, the same paths, and it goes on and is found."""
    with Store(tmp_path / "other.db") as other:
        conversation = other.import_json(exported, principal="ada")
        assert conversation is not None
        assert conversation == json.loads(exported)["conversation"]["id"]
        assert other.export(conversation, principal="ada", kind="json") == exported
        assert other.verify() == []
        path = load(other, conversation, "ada")
        assert [m.text for m in path.messages][1:3] == ["Q1", "A1"]
        assert path.messages[1].token_ids == tuple(b"Q1")
        assert len(other.search("A2", principal="ada", limit=5)) == 1
        assert other.latest(principal="ada") is None
        say(other, conversation, "Q4", "A4", "ada")
        assert other.search("Q4", principal=ME, limit=5) == []
        before = counts(other)
        assert other.import_json(exported, principal="ada") is None
        assert counts(other) == before


def test_ids_that_are_somebody_elses(store: Store, exported: str) -> None:
    """The copy has others, each time the same ones; nothing of the first changes."""
    mine = json.loads(exported)["conversation"]["id"]
    copy = store.import_json(exported, principal="ada")
    assert copy is not None
    assert copy != mine
    assert store.import_json(exported, principal="ada") is None
    document = json.loads(store.export(copy, principal="ada", kind="json"))
    original = json.loads(exported)
    assert document["messages"] == original["messages"]
    theirs, ours = ({r["id"] for r in d["responses"]} for d in (document, original))
    assert len(theirs) == len(ours)
    assert not theirs & ours
    assert store.export(mine, principal=ME, kind="json") == exported


def test_what_runs_is_left_out(store: Store) -> None:
    """Its question is there, for it was said."""
    conversation = store.create_conversation(principal=ME)
    begin(store, conversation)
    document = json.loads(store.export(conversation, principal=ME, kind="json"))
    assert (len(document["messages"]), document["responses"]) == (1, [])


def test_other_kinds_are_refused(store: Store) -> None:
    """By name."""
    conversation = store.create_conversation(principal=ME)
    with pytest.raises(InvalidRequest, match="not 'html'"):
        store.export(conversation, principal=ME, kind="html")


def changed(document: Document, change: Callable[[Document], object]) -> str:
    change(document)
    return json.dumps(document)


CHANGES: list[tuple[Callable[[Document], object], str]] = [
    (lambda d: d.update(format="x"), "format"),
    (lambda d: d.update(version=2), "version 2"),
    (lambda d: d.pop("messages"), "messages: Field required"),
    (lambda d: d["messages"][1].update(text="Q!"), "does not match its content"),
    (lambda d: d["messages"][1].update(token_ids=[1]), "does not match its content"),
    (lambda d: d["messages"][1].update(token_ids=[-1]), "out of range"),
    (lambda d: d["messages"][1].update(token_ids=["1"]), "valid integer"),
    (lambda d: d["messages"][1].update(status="well"), "messages.1.status"),
    (lambda d: d["messages"][1].update(created_at=float("nan")), "a time is none"),
    (lambda d: d["conversation"].update(created_at=1e300), "a time is none"),
    (lambda d: d["messages"][1].update(left_out={"messages": 2**64, "tokens": 0}), "out of range"),
    (lambda d: d["responses"][0].update(sequence=-1), "out of range"),
    (lambda d: d["messages"][1].update(role="system"), "within a conversation"),
    (lambda d: d["messages"].pop(0), "before its parent"),
    (lambda d: d["messages"].reverse(), "before its parent"),
    (lambda d: d["messages"].pop(), "no message 'msg_"),
    (lambda d: d["conversation"].update(root=None), "system message"),
    (lambda d: d["conversation"].update(tip="msg_X"), "no message 'msg_X'"),
    (lambda d: d["conversation"].update(metadata={"a": 1}), "metadata"),
    (lambda d: d["responses"][0].update(question="msg_X"), "no message 'msg_X'"),
    (lambda d: d["responses"][0].update(answer=d["responses"][1]["answer"]), "is no answer"),
    (lambda d: d["responses"][0].update(status="in_progress"), "responses.0.status"),
    (lambda d: d["responses"][0].update(options=[]), "responses.0.options"),
]


@pytest.mark.parametrize(("change", "complaint"), CHANGES)
def test_a_changed_document_is_refused(
    exported: str, tmp_path: Path, change: Callable[[Document], object], complaint: str
) -> None:
    """With what is wrong, and without a trace in the file."""
    with Store(tmp_path / "other.db") as other:
        with pytest.raises(InvalidRequest, match=complaint):
            other.import_json(changed(json.loads(exported), change), principal=ME)
        assert set(counts(other).values()) == {0}
        other.import_json(exported, principal=ME)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", "[" * 100_000, '{"format": "\\ud800"}', "\ud800"]
)
def test_what_is_no_document(store: Store, text: str) -> None:
    """Is refused, however deep it is."""
    with pytest.raises(InvalidRequest):
        store.import_json(text, principal=ME)


def test_ids_of_other_shapes_are_replaced(exported: str, tmp_path: Path) -> None:
    """What a document calls its conversation and responses is not taken as it comes."""
    document = json.loads(exported)
    document["conversation"]["id"] = "../../etc"
    document["responses"][0]["id"] = "x"
    with Store(tmp_path / "other.db") as other:
        conversation = other.import_json(json.dumps(document), principal=ME)
        assert conversation is not None
        assert other.resolve(conversation, principal=ME) == conversation
        ids = [row.id for row in other.responses_of(conversation, principal=ME)]
        assert all(id_.startswith("resp_") for id_ in ids)
        assert other.import_json(json.dumps(document), principal=ME) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[Store, str]]:
    """A store, and the document of its one conversation of one turn."""
    with Store(Path(":memory:")) as store:
        conversation = store.create_conversation(principal=ME, system="S")
        say(store, conversation)
        yield store, store.export(conversation, principal=ME, kind="json")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place(small: tuple[Store, str], data: st.DataObject) -> None:
    """A document with something else somewhere is refused or is a conversation, and no error."""
    store, exported = small
    document = json.loads(exported)
    place: Any = document
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    try:
        made = store.import_json(json.dumps(document), principal="ada")
    except InvalidRequest:
        made = None
    if made is not None:
        assert store.export(made, principal="ada", kind="markdown")
        assert store.export(made, principal="ada", kind="json")
        assert store.verify() == []
        store.delete_conversation(made, principal="ada")
