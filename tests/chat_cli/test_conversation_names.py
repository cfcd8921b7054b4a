"""Which conversation a name means; what a name may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli import conversation_names
from radixchat.chat_cli.conversation_names import (
    all_conversations,
    called,
    checked_name,
    described,
    named,
    turns,
)
from radixchat.server.protocol import ConversationView, InvalidRequest
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat


def view(id_: str, title: str = "", opening: str = "", num_turns: int = 2) -> ConversationView:
    """A conversation to be found."""
    return ConversationView(f"conv_{id_}", title, None, None, 0.0, 0.0, num_turns, opening=opening)


VIEWS = [
    view("01ABCDEF", "Recipes"),
    view("01ABCXYZ", "recipes"),
    view("02CAFE00", "Cafés of Wien"),
    view("03BEEF00", "Café"),
    view("04BEEF00", "  two \n words "),
    view("05AAAAAA", "05AA"),
    view("06AAAAAA", ""),
    view("07AAAAAA", "twins"),
    view("08AAAAAA", "twins"),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Recipes", "01ABCDEF"),  # whole names count with their capitals
        ("recipes", "01ABCXYZ"),
        ("CAFÉ", "03BEEF00"),  # a whole name before the beginning of another
        ("cafés", "02CAFE00"),
        ("two words", "04BEEF00"),
        ("two\twords", "04BEEF00"),
        ("two", "04BEEF00"),
        ("01abcd", "01ABCDEF"),
        ("conv_02CA", "02CAFE00"),
        ("CONV_06AAAAAA", "06AAAAAA"),
        ("03BE", "03BEEF00"),
        ("05AA", "05AAAAAA"),
    ],
)
def test_found(name: str, found: str) -> None:
    """A whole name, then the beginning of an id, then that of a name."""
    assert named(name, VIEWS).id == f"conv_{found}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "no conversation's name or id begins with 'nothing'"),
        ("01A", "no conversation's name or id begins with '01A'"),  # too short for an id
        ("conv_", "begins with 'conv_'"),
        ("", "begins with ''"),
        ("01ABC", '\'01ABC\' may be "Recipes" (conv_01ABCDEF, 2 turns), "recipes"'),
        ("RECIPES", "may be"),
        ("twins", '"twins" (conv_07AAAAAA, 2 turns), "twins" (conv_08AAAAAA, 2 turns): say more'),
    ],
)
def test_not_found(name: str, said: str) -> None:
    """None, or several, which are told."""
    with pytest.raises(InvalidRequest) as caught:
        named(name, VIEWS)
    assert said in str(caught.value)


def test_many_candidates_are_not_all_told() -> None:
    """Five of them, and how many more."""
    many = [view(f"{number:08}", "same") for number in range(12)]
    with pytest.raises(InvalidRequest, match="and 7 more: say more of the name") as caught:
        named("same", many)
    assert str(caught.value).count("conv_") == 5


@pytest.mark.parametrize(
    ("name", "checked"),
    [("one", "one"), (" a \n\t b ", "a b"), ("名前 👩‍🚀", "名前 👩‍🚀"), ("x" * 200, "x" * 200)],
)
def test_names(name: str, checked: str) -> None:
    """One line, without space around it."""
    assert checked_name(name) == checked


@pytest.mark.parametrize("name", ["", " \n ", "\u200b", "x" * 201, "#1", "# heading"])
def test_no_names(name: str) -> None:
    """Nothing to see, too much of it, or what means a branch."""
    with pytest.raises(InvalidRequest):
        checked_name(name)


def test_what_it_is_called() -> None:
    """Its name, or its beginning, or that it has neither."""
    assert called(view("1", "name", "opening")) == "name"
    assert called(view("1", " ", "opening\nof it")) == "opening of it"
    assert called(view("1")) == "(nothing said yet)"
    assert (
        described(view("01ABCDEF0123456789", "x", num_turns=1)) == '"x" (conv_01ABCDEF0123, 1 turn)'
    )
    assert turns(1234) == "1,234 turns"


def test_all_of_them(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page after page, each conversation once; also where the last page is full."""
    monkeypatch.setattr(conversation_names, "_PAGE", 2)

    async def work(scene: ChatScene) -> None:
        made: list[str] = []
        for _ in range(6):
            found = [view.id for view in await all_conversations(scene.client)]
            assert sorted(found) == sorted(made)
            made.append(await scene.client.create_conversation())

    in_chat(tiny_model, tmp_path, work)
