"""The built-in tokenizer loses nothing, is the same everywhere, and counts like real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.bench.trace_words import END, START, WordChat, cut, encode
from radixchat.engine.gguf import read_gguf
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello world", ["Hello", " world"]),
        ("internationally", ["internati", "onally"]),
        ("It's 12345!?", ["It", "'", "s", " ", "123", "45", "!?"]),
        ("a\n\n  b_c", ["a", "\n\n", "  ", "b", "_", "c"]),
        ("日本語です", ["日", "本", "語", "で", "す"]),
        ("Привет мир", ["При", "вет", " мир"]),
        ("<|im_end|>", ["<|", "im", "_", "end", "|>"]),
        ("", []),
    ],
)
def test_text_is_cut_as_models_cut_it(text: str, pieces: list[str]) -> None:
    """Words with their space, digits by three, CJK by one."""
    assert cut(text) == pieces


@given(st.text(st.characters(codec="utf-8")))
def test_no_character_is_lost(text: str) -> None:
    """The pieces, joined, are the text; ids are those of no control token."""
    assert "".join(cut(text)) == text
    assert all(2 <= token < 2**31 for token in encode(text))


def test_ids_are_the_same_on_every_machine() -> None:
    """They are a checksum of the piece."""
    assert encode("Hello world") == [2010220934, 1245397709]


def test_a_prompt_extends_the_one_before_and_its_answer() -> None:
    """To the token, whatever is said; ChatML's frame costs five tokens a message."""
    chat = WordChat()
    messages = [ChatMessage("system", "Be brief."), ChatMessage("user", "Hi\n")]
    first, output = chat.turn(messages, " Hello. ")
    assert first[0] == START
    assert output[-1] == END
    assert len(first) == 5 + len(encode("Be brief.")) + 5 + len(encode("Hi\n")) + 3
    messages += [ChatMessage("assistant", " Hello. "), ChatMessage("user", "Bye")]
    second, none = chat.turn(messages, None)
    assert second[: len(first) + len(output)] == first + output
    assert none == []


@pytest.mark.shared_data
@pytest.mark.model
def test_english_is_counted_like_smollm2(
    default_model: Path, shared_chats: Callable[[str], Iterator[dict[str, Any]]]
) -> None:
    """Within 4 % over a collection of chats."""
    tokenizer = Tokenizer.from_gguf(read_gguf(default_model).fields)
    texts = [m["content"] for chat in shared_chats("mtbench101") for m in chat["messages"]][:2000]
    ours, theirs = (sum(len(e(text)) for text in texts) for e in (encode, tokenizer.encode))
    assert ours / theirs == pytest.approx(1.0, abs=0.04)
