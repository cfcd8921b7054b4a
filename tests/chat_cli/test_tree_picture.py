"""The drawn tree: its lines, what is left out of them, and that they fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from rich.cells import cell_len

from radixchat.chat_cli.tree_picture import AROUND, HEAD, TAIL, tree_picture
from radixchat.tests.chat_cli.trees import tree

MOST = HEAD + TAIL + 2 * AROUND + 1 + 3  # and the lines that say what is left out


def drawn(*links: str, width: int = 80, **how: Any) -> list[str]:
    """The lines of a tree as trees.py writes them."""
    return [line.plain for line in tree_picture(tree(*links, **how), width)]


def test_empty() -> None:
    """Nothing is drawn of nothing."""
    assert drawn() == []


def test_one_message() -> None:
    """It ends the one branch."""
    assert drawn("u", path="u") == ["* · you    text of u  #1  ← here"]


def test_branches() -> None:
    """Who, how it begins, which branch; the path is marked, and where one is on it."""
    lines = drawn(
        *("s", "s-u", "u-a1", "u-a2", "a2-u2", "u2-a3"),
        path="s u a2 u2",
        texts={"s": "Be\tbrief.\n", "u": "", "a1": "x" * 60},
        statuses={"a1": "interrupted", "a3": "error"},
    )
    assert lines == [
        "*   system Be brief.",
        "* · you    (empty)",
        f"  ├─· model  {'x' * 49}…  #1  (cut short)",
        "* · model  text of a2",
        "* · you    text of u2  ← here",
        "  · model  text of a3  #2  (failed)",
    ]


def test_warmth() -> None:
    """Filled, in part with both numbers, hollow; without the token that nobody has asked after."""
    warmth = {"u": (10, 10), "a": (840, 812), "u2": (30, 0), "a2": (7, 6)}
    lines = drawn("u", "u-a", "a-u2", "u2-a2", path="u a u2 a2", warmth=warmth)
    assert lines == [
        "* ● you    text of u",
        "* ◐ model  text of a  812/840",
        "* ○ you    text of u2",
        "* ● model  text of a2  #1  ← here",
    ]
    hot, partly, cold, _ = tree_picture(
        tree("u", "u-a", "a-u2", "u2-a2", path="u a u2 a2", warmth=warmth), 80
    )
    dim = [[span.style for span in line.spans if "dim" in str(span.style)] for line in (hot, cold)]
    assert not [style for style in dim[0] if style]
    assert dim[1]
    assert partly.plain.endswith("812/840")


def test_a_long_run_is_folded() -> None:
    """Its first message and its last two stay, and the one where the conversation is."""
    chain = ["0", *(f"{number}-{number + 1}" for number in range(19))]
    texts = {str(number): f"m{number}" for number in range(20)}
    path = " ".join(str(number) for number in range(20))
    warmth = {str(number): (10, 10 if number < 5 else 0) for number in range(20)}
    assert drawn(*chain, path=path, texts=texts, warmth=warmth) == [
        "* ● model  m0",
        "* ◐ … 17 messages …  40/170",
        "* ○ model  m18",
        "* ○ model  m19  #1  ← here",
    ]
    back = " ".join(str(number) for number in range(11))
    assert drawn(*chain, path=back, texts=texts) == [
        "* · model  m0",
        "* · … 9 messages …",
        "* · model  m10  ← here",
        "  · … 7 messages …",
        "  · model  m18",
        "  · model  m19  #1",
    ]


def test_a_run_of_four_is_whole() -> None:
    """To fold one message would save no line."""
    assert len(drawn("u", "u-a", "a-u2", "u2-a2")) == 4
    assert "text of a" in "".join(drawn("u", "u-a", "a-u2", "u2-a2", "a2-u3"))


def test_a_deep_path() -> None:
    """5,000 messages in a row are four lines."""
    chain = ["0", *(f"{number}-{number + 1}" for number in range(4999))]
    lines = drawn(*chain, path=" ".join(map(str, range(5000))))
    assert len(lines) == 4
    assert "… 4,997 messages …" in lines[1]


@pytest.mark.parametrize("at", [0, 250, 499])
def test_many_branches(at: int) -> None:
    """Of 500 answers those at both ends are drawn, and those around the current one."""
    lines = drawn("u", *(f"u-a{number}" for number in range(500)), path=f"u a{at}")
    assert len(lines) <= MOST
    assert f"#{at + 1}  ← here" in "\n".join(lines)
    assert "  #1" in lines[1]
    assert lines[-1].endswith("  #500") or at == 499
    left_out = [line for line in lines if line.startswith("  … ")]
    assert left_out
    assert all(" messages, branches #" in line for line in left_out)


def test_edits_one_after_another() -> None:
    """A path on which every message was changed once is not drawn ever further to the right."""
    links = ["u0"]
    for number in range(500):
        links += [f"u{number}-x{number}", f"u{number}-u{number + 1}"]
    lines = drawn(*links, path=" ".join(f"u{number}" for number in range(501)))
    assert len(lines) <= MOST
    assert max(map(cell_len, lines)) <= 40


@pytest.mark.parametrize("width", [20, 25, 40, 80, 200])
@pytest.mark.parametrize(
    "text", ["plain text " * 20, "漢字かな交じり文" * 20, "👩‍👩‍👧‍👦🇩🇪👍🏽" * 20, "e\u0301" * 200]
)
def test_lines_fit(width: int, text: str) -> None:
    """Wide characters, clusters and narrow terminals: a line stays a line."""
    names = ["u", "a", "b", "c", "d", "e"]
    links = ["u"]
    for before, name in pairwise(names):
        links += [f"{before}-{name}1", f"{before}-{name}"]  # the newest goes on
        links += [f"{name}1-{name}2", f"{name}1-{name}3"]
    found = tree(
        *links,
        path="u a b c d e",
        texts={link.rpartition("-")[2]: text for link in links},
        warmth={"e": (12_345, 12_000)},
    )
    for line in tree_picture(found, width):
        assert line.cell_len <= width
        assert "\n" not in line.plain
    assert "#1" in "".join(line.plain for line in tree_picture(found, width))


def test_deep_offshoots_share_a_column() -> None:
    """Offshoots of offshoots do not leave the screen."""
    links = ["r"]
    for number in range(50):
        parent = "r" if number == 0 else f"o{number - 1}"
        links += [f"{parent}-o{number}", f"{parent}-p{number}"]
    for width in (20, 80):
        assert max(map(cell_len, drawn(*links, width=width))) <= width


def test_texts_are_harmless() -> None:
    """What a terminal would obey, and what would reorder a line, is seen and does nothing."""
    [line] = drawn("u", texts={"u": "a\x1b]52;c;aGk=\x07\x9b2J\r\n\u202eb"})
    assert not {"\x1b", "\x07", "\x9b", "\r", "\n", "\u202e"} & set(line)


def test_siblings_show_where_they_differ() -> None:
    """Answers that begin alike are told apart: each from the word on that the nearest has not."""
    begin = "The same words at the beginning of it"
    texts = {"a": f"{begin} end here", "b": f"{begin}, and so on", "c": "Not at all", "d": begin}
    lines = drawn("u", "u-a", "u-b", "u-c", "u-d", texts=texts)
    assert [line.split("model  ")[1] for line in lines[1:]] == [
        "…it end here  #1",
        "…it, and so on  #2",
        "Not at all  #3",
        "…it  #4",
    ]
    same = drawn("u", "u-a", "u-b", texts={"a": begin, "b": begin})
    assert [line.split("model  ")[1] for line in same[1:]] == [f"{begin}  #1", f"{begin}  #2"]


class Huge(str):
    """A text that must not be gone through as a whole."""

    __slots__ = ()

    def split(self, *args: Any, **named: Any) -> list[str]:
        raise AssertionError("the whole text was split")


def test_only_the_beginning_of_a_text_is_read() -> None:
    """A message may have megabytes, a line shows some hundred characters at most."""
    [line] = drawn("u", texts={"u": Huge("word " * 1000)}, width=1000)
    assert line.startswith("  · you    word word ")
    assert line.endswith("word…  #1")
