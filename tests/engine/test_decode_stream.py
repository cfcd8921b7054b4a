"""Text arrives whole: no half characters, no invented ones, nothing lost, nothing held for long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from radixchat.engine.gguf import read_gguf
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.small_tokenizers import BYTE_LEVEL, SENTENCEPIECE, TOKENIZERS
from radixchat.tests.engine.vocabularies import (
    SENTENCES,
    byte_characters,
    byte_level_fields,
    sentencepiece_fields,
)

TEXTS = [
    *SENTENCES,
    *("👩\u200d👩\u200d👧\u200d👦", "🧑🏽\u200d🚀 ok", "🇨🇿🇨🇿", "e\u0301", "ď", "猫が好き", "שָׁלוֹם"),
]


def deltas(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What a reader sees, push by push, and at the end."""
    stream = tokenizer.stream()
    return [*[stream.push(token_id) for token_id in ids], stream.finish()]


def byte_ids(data: bytes) -> list[int]:
    """The byte-level tokens of single bytes."""
    tokens = byte_level_fields()["tokenizer.ggml.tokens"]
    return [tokens.index(byte_characters()[byte]) for byte in data]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_text_of_every_script_comes_back_and_no_delta_is_half_a_character(
    tokenizer: Tokenizer, text: str
) -> None:
    """Encode, then decode token by token: the text again, and never U+FFFD."""
    parts = deltas(tokenizer, tokenizer.encode(text))
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(data=st.data())
def test_deltas_of_any_ids_join_to_their_decoding(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """Also for nonsense: control tokens within characters, broken bytes, unknown ids."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3)))
    assert "".join(deltas(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.model
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_real_ids_decode_as_the_tokenizers_package_does(
    real_tokenizer: tuple[Tokenizer, list[str]], data: st.DataObject
) -> None:
    """Random ids of the real vocabulary against the byte-level decoder it was made with."""
    tokenizer, tokens = real_tokenizer
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    hidden = set(tokenizer.control_tokens.values())
    expected = decoders.ByteLevel().decode([tokens[i] for i in ids if i not in hidden])
    assert tokenizer.decode(ids) == expected
    assert "".join(deltas(tokenizer, ids)) == expected


@pytest.fixture(scope="module")
def real_tokenizer(default_model: Path) -> tuple[Tokenizer, list[str]]:
    """The default model's tokenizer and its tokens."""
    fields = read_gguf(default_model).fields
    return Tokenizer.from_gguf(fields), fields["tokenizer.ggml.tokens"]


def test_a_character_is_shown_when_its_last_byte_arrives() -> None:
    """Four bytes of an emoji: nothing, nothing, nothing, the emoji."""
    assert deltas(BYTE_LEVEL, byte_ids("👍".encode())) == ["", "", "", "👍", ""]


def test_a_truncated_tail_is_flushed_once_at_the_end() -> None:
    """Generation that stops within a character shows one U+FFFD, and only then."""
    assert deltas(BYTE_LEVEL, byte_ids(b"ok" + "👍".encode()[:3])) == [
        *("o", "k", "", "", ""),
        "\ufffd",
    ]


def test_invalid_bytes_are_not_held() -> None:
    """A byte that can never become a character is U+FFFD at once; the text goes on."""
    assert deltas(BYTE_LEVEL, byte_ids(b"\xff\xffa")) == ["\ufffd", "\ufffd", "a", ""]
    # Beginnings without an end: each is given up when the next one begins.
    parts = deltas(BYTE_LEVEL, byte_ids(b"\xe2\x82" * 50))
    assert parts == ["", ""] + ["\ufffd", ""] * 49 + ["\ufffd"]


def test_a_pending_tail_survives_a_token_that_begins_with_a_space() -> None:
    """Half a character, then " x": the half is U+FFFD, the rest intact."""
    assert "".join(deltas(BYTE_LEVEL, byte_ids(b"\xc4 x"))) == "\ufffd x"


def test_a_control_token_within_a_character_does_not_break_it() -> None:
    """It shows nothing, so the character's bytes still meet."""
    first, last = byte_ids("ď".encode())
    control = BYTE_LEVEL.control_tokens["<|im_end|>"]
    assert deltas(BYTE_LEVEL, [first, control, last]) == ["", "", "ď", ""]


def test_sentencepiece_drops_the_first_space_only() -> None:
    """The space that SentencePiece writes before a text is not part of it."""
    ids = SENTENCEPIECE.encode("Hello there")
    assert SENTENCEPIECE.decode(ids) == "Hello there"
    assert SENTENCEPIECE.decode(ids + ids) == "Hello there Hello there"
    assert SENTENCEPIECE.decode(SENTENCEPIECE.encode(" Hello")) == " Hello"


def test_sentencepiece_byte_tokens_join_to_characters() -> None:
    """A character that is no piece of its own goes through byte tokens and comes back."""
    ids = SENTENCEPIECE.encode("鬱")
    tokens = sentencepiece_fields()["tokenizer.ggml.tokens"]
    assert [tokens[i] for i in ids][-3:] == ["<0xE9>", "<0xAC>", "<0xB1>"]
    assert "".join(deltas(SENTENCEPIECE, ids)) == "鬱"
