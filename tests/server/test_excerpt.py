"""Tokens as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.excerpt import MAX_CHARACTERS, excerpt


@pytest.fixture(scope="module")
def tokenizer(tiny_directory: Path) -> Tokenizer:
    return Tokenizer.from_directory(tiny_directory)


def test_control_tokens_and_control_characters_are_visible(tokenizer: Tokenizer) -> None:
    """What a terminal or a page would swallow is spelt out."""
    ids = [tokenizer.control_tokens["<|im_start|>"], *tokenizer.encode("user\nHi\x1b\u200b\n")]
    assert excerpt(tokenizer, ids, 0) == r"<|im_start|>user\nHi\x1b\u200b\n"


def test_the_place_is_in_the_middle_of_a_long_text(tokenizer: Tokenizer) -> None:
    """24 characters lead to it, and the whole has at most 80."""
    ids = tokenizer.encode("a" * 100 + "b" * 100)
    text = excerpt(tokenizer, ids, 100)
    assert text == "a" * 24 + "b" * 55 + "…"
    assert len(text) == MAX_CHARACTERS
    assert excerpt(tokenizer, ids, 0) == "a" * 79 + "…"
    assert excerpt(tokenizer, ids, 200) == "b" * 24


def test_a_difference_within_a_character_shows_the_whole_character(tokenizer: Tokenizer) -> None:
    """The byte that differs is not shown as half a character."""
    ids = tokenizer.encode("an é!")
    assert len(ids) == 6
    assert [excerpt(tokenizer, ids, index) for index in (3, 4)] == ["an é!", "an é!"]
    assert excerpt(tokenizer, tokenizer.encode("é" * 100), 151).startswith("é" * 24)


def test_the_end_of_an_unfinished_character_is_told(tokenizer: Tokenizer) -> None:
    """Bytes that are no character are U+FFFD, as in the answer itself."""
    assert excerpt(tokenizer, tokenizer.encode("ab é")[:-1], 0) == "ab \ufffd"
