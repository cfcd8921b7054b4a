"""Huge texts in the input line: what stands for them, and that their text is what is meant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixchat.chat_cli.pasted_text import (
    MOST_CHARACTERS,
    MOST_DRAWN,
    MOST_LINES,
    Part,
    PastedTexts,
    is_huge,
    label_of,
)

HUGE = "line\n" * 30
LONG = "x" * (MOST_CHARACTERS + 1)


def test_what_is_huge() -> None:
    """More than 2,000 characters or 20 lines; a newline at the end begins no line."""
    assert not is_huge("x" * MOST_CHARACTERS)
    assert is_huge(LONG)
    assert not is_huge("x\n" * MOST_LINES)
    assert is_huge("x\n" * MOST_LINES + "x")


def test_labels() -> None:
    """A text is called by what makes it huge."""
    assert label_of("x\n" * 12_345) == "[pasted 12,345 lines]"
    assert label_of("x" * 12_345) == "[pasted 12,345 characters]"


def test_a_paste_is_one_character() -> None:
    """A huge one; the same again is the same one, a small one is itself."""
    pasted = PastedTexts()
    stand_in = pasted.paste(HUGE)
    assert len(stand_in) == 1
    assert pasted.paste(HUGE) == stand_in
    assert pasted.paste(LONG) not in ("", stand_in)
    assert pasted.paste("small\ntext") == "small\ntext"
    assert pasted.label(stand_in) == "[pasted 30 lines]"
    assert pasted.label("x") is None
    assert pasted.text(f"a{stand_in}b{stand_in}") == f"a{HUGE}b{HUGE}"
    assert pasted.parts(f"a{stand_in}") == [Part("a"), Part(HUGE, True)]


@given(st.lists(st.sampled_from([HUGE, LONG, "a", "b\n", "漢", ""]), max_size=8))
def test_any_line_means_its_texts(texts: list[str]) -> None:
    """What was put together from pastes and keys is sent as their texts, and is short."""
    pasted = PastedTexts()
    line = "".join(map(pasted.paste, texts))
    assert pasted.text(line) == "".join(texts)
    assert len(line) <= 2 * len(texts)
    other = PastedTexts()
    assert other.text(other.line(pasted.parts(line))) == "".join(texts)


def test_a_draft() -> None:
    """What was pasted in this run has its label again; what is too long to be drawn has one too."""
    pasted = PastedTexts()
    stand_in = pasted.paste(HUGE)
    assert pasted.draft(f"see {HUGE}, thanks") == f"see {stand_in}, thanks"
    assert pasted.draft(LONG) == LONG
    endless = "x" * (MOST_DRAWN + 1)
    assert len(pasted.draft(endless + HUGE)) == 1
    assert pasted.text(pasted.draft(endless + HUGE)) == endless + HUGE


def test_no_characters_left() -> None:
    """A text then stands for itself; those of earlier runs leave enough for what is pasted."""
    pasted = PastedTexts()
    lines = [pasted.line([Part(f"{number} {HUGE}", True)]) for number in range(1_100)]
    assert [len(line) == 1 for line in lines] == [True] * 512 + [False] * 588
    texts = [f"{number} {LONG}" for number in range(600)]
    line = "".join(map(pasted.paste, texts))
    assert pasted.text(line) == "".join(texts)
    assert sum(part.is_pasted for part in pasted.parts(line)) == 512


def test_what_stands_for_nothing() -> None:
    """No terminal sends such a character; in a damaged history it is made harmless."""
    assert PastedTexts().text("\ud800") == "\ud800"
    assert PastedTexts().line([Part("a\ud800b")]) == "a\ufffdb"
