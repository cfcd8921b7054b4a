"""The picture of a prompt: what is cached, in styles and without them, and never too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from rich.cells import cell_len
from rich.text import Text

from radixchat.chat_cli.cache_picture import MAX_ROWS, cache_picture, message_titles
from radixchat.server.protocol import CacheReport, CacheSegment, MessageView
from radixchat.tests.seeded_bug import SeededBug

CACHED, COMPUTED = "memory", "computed"
Draw = Callable[[CacheReport, Sequence[MessageView]], list[Text]]


@dataclass(frozen=True, slots=True)
class Misdrawing(SeededBug):
    """A bug of chat_cli/cache_picture.py."""

    PACKAGE: ClassVar[str] = "chat_cli"
    ROOT: ClassVar[str] = "cache_picture"


def view(id_: str, role: str = "user") -> MessageView:
    return MessageView(id_, role, "", "complete")


def report(*shares: tuple[str | None, str, int, str]) -> CacheReport:
    """shares: message, text, tokens, state."""
    segments, at = [], 0
    for message, text, tokens, state in shares:
        segments.append(CacheSegment(at, at + tokens, state, message, text))
        at += tokens
    cached = sum(tokens for _, _, tokens, state in shares if state == CACHED)
    return CacheReport(None, at, cached, tuple(segments))


def plain(lines: Sequence[Text]) -> list[str]:
    return [line.plain for line in lines]


SMALL = (
    report(
        ("s", "<|im_start|>system\nbe brief", 7, CACHED),
        ("u", "<|im_end|>\n<|im_start|>user\nHi", 900, CACHED),
        ("u", " there<|im_end|>\n<|im_start|>assistant\n", 100, COMPUTED),
        ("a", "Hello", 1, COMPUTED),
    ),
    [view("s", "system"), view("u"), view("a", "assistant")],
)


def check_all_is_said(draw: Draw) -> None:
    """Of a small prompt every token, and how each line is marked and lit."""
    lines = draw(*SMALL)
    assert plain(lines) == [
        "system message · 7 tokens, cached",
        "  <|im_start|>system",
        "  be brief",
        "message 1 · 1,000 tokens: 900 cached, 100 to compute",
        "  <|im_end|>",
        "  <|im_start|>user",
        "  Hi",
        "+ … there<|im_end|>",
        "+ <|im_start|>assistant",
        "answer 1 · 1 token, to compute",
        "+ Hello",
    ]
    is_bright = [line.plain.startswith("+") or "to compute" in line.plain for line in lines]
    assert [str(line.style) for line in lines] == ["bold" if it else "dim" for it in is_bright]


def check_nothing_is_lost(draw: Draw) -> None:
    """Of a long prompt the totals of what is left out, too."""
    prompt, messages = long_prompt(300, cached=150)
    heads = [line for line in plain(draw(prompt, messages)) if " · " in line]
    for state, tokens in (("cached", prompt.cached_tokens), ("to compute", 7475)):
        told = [_told(head, state) for head in heads]
        assert sum(told) == tokens


def check(draw: Draw) -> None:
    check_all_is_said(draw)
    check_nothing_is_lost(draw)


def _told(head: str, state: str) -> int:
    """How many tokens of that state a line tells of."""
    whole = re.search(rf"([\d,]+) tokens?, {state}", head)
    part = re.search(rf"([\d,]+) {state}", head)
    found = whole or part
    return 0 if found is None else int(found[1].replace(",", ""))


def test_every_token_is_in_it() -> None:
    """Message by message, with totals; a mark says what would be computed, whatever the styles."""
    check(cache_picture)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("counts[True], counts[False]", "counts[False], counts[True]"),
        ("segment.end - segment.start", "segment.end"),
        ('else "+ "', 'else "  "'),
        ("_DIM if self.is_cached", "_DIM if self.text"),
        ('text = f"…{text}"', "pass"),
        ("sum(block.computed for", "sum(block.cached for"),
        ("cached = sum(block.cached for block in some)", "cached = some[0].cached"),
    ],
)
def test_seeded_bugs_are_seen(old: str, new: str) -> None:
    """By what is checked of the picture as it is."""
    root = Misdrawing(new, "cache_picture", old, new).load_root()
    with pytest.raises(AssertionError):
        check(root.cache_picture)


def long_prompt(num_messages: int, cached: int) -> tuple[CacheReport, list[MessageView]]:
    """Messages of 21 rows and 50 tokens; so many are cached, and half of the next."""
    text = "".join(f"row {row}\n" for row in range(21))
    shares: list[tuple[str | None, str, int, str]] = []
    for index in range(num_messages):
        if index < cached:
            shares.append((f"m{index}", text, 50, CACHED))
        elif index > cached:
            shares.append((f"m{index}", text, 50, COMPUTED))
        else:
            shares += [(f"m{index}", text, 25, CACHED), (f"m{index}", text, 25, COMPUTED)]
    roles = ("user", "assistant")
    return report(*shares), [view(f"m{i}", roles[i % 2]) for i in range(num_messages)]


@pytest.mark.parametrize("num_messages", [1, 2, 7, 8, 60, 5000])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_long_prompt_is_abbreviated(num_messages: int, share: float) -> None:
    """Its ends and where the cache ends are there; what is left out is counted."""
    cached = int(share * num_messages)
    prompt, messages = long_prompt(num_messages, cached)
    lines = plain(cache_picture(prompt, messages))
    assert len(lines) <= MAX_ROWS
    heads = [line for line in lines if " · " in line]
    totals = [int(head.split(" · ")[1].split(" token")[0].replace(",", "")) for head in heads]
    assert sum(totals) == prompt.input_tokens
    titles = list(message_titles(messages).values())
    for index in {0, min(cached, num_messages - 1), num_messages - 1}:
        assert any(head.startswith(f"{titles[index]} · ") for head in heads)
    left_out = [int(head.split()[1].replace(",", "")) for head in heads if head.startswith("… ")]
    assert sum(left_out) + len(heads) - len(left_out) == num_messages
    assert any("more lines …" in line for line in lines)


def test_long_lines_are_broken() -> None:
    """A line has its mark on every row, wide characters and tabs count as what they take."""
    prompt = report(("u", "語" * 100 + "\n" + "\t" * 40 + "end", 9, COMPUTED))
    rows = plain(cache_picture(prompt, [view("u")]))[1:]
    assert len(rows) >= 5
    assert all(row.startswith("+") and cell_len(row) <= 76 for row in rows)


@pytest.mark.parametrize("width", [10, 22, 40, 76, 300])
def test_lines_are_broken_between_words(width: int) -> None:
    """In any window: no row is wider, no word is cut that fits in one, and none is lost."""
    text = "A prompt of words, one of them " + "l" * 45 + "ong, and two  spaces."
    prompt = report(("u", text, 9, CACHED))
    rows = plain(cache_picture(prompt, [view("u")], width))[1:]
    room = max(20, min(width, 76) - 2)
    assert all(row.startswith("  ") and cell_len(row) <= room + 2 for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())
    assert {"prompt", "words,", "spaces."} <= set(" ".join(rows).split())


def test_control_characters_do_nothing() -> None:
    """A message, and a role, cannot write on the terminal."""
    prompt = report(("u", "a\x1b[2Jb\x9b", 3, CACHED))
    [title, row] = plain(cache_picture(prompt, [view("u", "to\x1bol")]))
    assert title == "to␛ol message · 3 tokens, cached"
    assert row == "  a␛[2Jb\ufffd"


def test_without_borders_it_is_one_prompt() -> None:
    """Where a template tells no borders, and of an empty prompt nothing."""
    assert plain(cache_picture(report((None, "abc", 3, CACHED)), [view("u")])) == [
        "prompt · 3 tokens, cached",
        "  abc",
    ]
    assert cache_picture(report(), []) == []


def test_titles_count_as_edits_do() -> None:
    """Messages before the first turn have no number; a tool's belongs to its turn."""
    roles = ("system", "user", "assistant", "tool", "assistant", "user")
    messages = [view(str(i), role) for i, role in enumerate(roles)]
    assert list(message_titles(messages).values()) == [
        "system message",
        "message 1",
        "answer 1",
        "tool message of turn 1",
        "answer 1",
        "message 2",
    ]
