"""The mask: text goes through any template and still tells where it came from."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.content_mask import MARKER, ContentMask, uses_mask_characters
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import Piece, joined

# Private-use characters among the rest: the mask's own are nothing special in a message.
anything = st.text(st.characters() | st.sampled_from(f"\U000f0000\U000f0001{MARKER} \n\u3000a"))


@settings(deadline=None)
@given(text=anything)
def test_what_was_hidden_comes_back_as_content(text: str) -> None:
    """Every character but the outer whitespace, whatever the characters are."""
    mask = ContentMask()
    pieces = mask.pieces(mask.hide(text))
    assert joined(pieces) == text
    assert "".join(p.text for p in pieces if p.is_content) == text.strip()


@settings(deadline=None)
@given(before=anything, after=anything)
def test_a_template_can_trim_slice_and_repeat(before: str, after: str) -> None:
    """The shape of a message is visible, and what is done to it is done to the text."""
    mask = ContentMask()
    hidden, other = mask.hide(before), mask.hide(after)
    rendered = f"[{hidden.strip()}|{other[:3]}|{hidden}]"
    assert joined(mask.pieces(rendered)) == f"[{before.strip()}|{after[:3]}|{before}]"
    assert len(hidden) == len(before)


def test_pieces_alternate_between_template_and_content() -> None:
    """Whitespace within a message is part of it."""
    mask = ContentMask()
    hidden = mask.hide(" two\n words ")
    assert mask.pieces(f"<a>{hidden}<b>") == [
        Piece("<a> ", is_content=False),
        Piece("two\n words", is_content=True),
        Piece(" <b>", is_content=False),
    ]


def test_what_a_template_looks_for_can_stay_visible() -> None:
    """Kept marks are the template's, the text around them is content."""
    mask = ContentMask()
    hidden = mask.hide("<think>why</think>yes", re.compile(r"(</?think>)"))
    assert hidden.startswith("<think>")
    assert mask.pieces(hidden) == [
        Piece("<think>", is_content=False),
        Piece("why", is_content=True),
        Piece("</think>", is_content=False),
        Piece("yes", is_content=True),
    ]


def test_more_characters_than_the_mask_has_are_refused() -> None:
    """Nobody writes 131,070 different characters; a program could send them."""
    mask = ContentMask()
    mask.hide("".join(chr(code) for code in range(0x30000, 0x30000 + 131_069)))
    with pytest.raises(InvalidRequest, match="more than 131069 different characters"):
        mask.hide("a")


def test_a_template_with_mask_characters_is_recognised() -> None:
    """The first, the last, and not the one before."""
    assert uses_mask_characters("a\U000f0000")
    assert uses_mask_characters(MARKER)
    assert not uses_mask_characters("\ue000 \U000effff")
