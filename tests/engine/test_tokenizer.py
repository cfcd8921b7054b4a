"""Encoding: the original's ids for any text, and control tokens from templates only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.gguf import read_gguf
from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.vocabulary import ControlToken, Vocabulary
from radixchat.tests.engine.small_tokenizers import BYTE_LEVEL, SENTENCEPIECE, TOKENIZERS
from radixchat.tests.engine.vocabularies import (
    CONTROL_TEXTS,
    SENTENCES,
    SHOWN_TEXTS,
    byte_level_fields,
    merge_by_score,
    reference_encoder,
    sentencepiece_fields,
    whole_text_encoder,
)

CHAT_FILES = (
    "chatterbot_corpus",
    "mtbench101",
    "multilingual_mtbench_2turn",
    "oasst1_en_validation_tree_paths",
)
REFERENCE = reference_encoder(byte_level_fields())
WHOLE_TEXT = whole_text_encoder(byte_level_fields())

words = st.sampled_from([*SENTENCES, " ", "\n", "\n\n", "7", "ab", "  x", "don't", "ď", "猫", "▁"])
texts = st.lists(words | st.text(max_size=5)).map("".join)
hostile = st.lists(
    st.sampled_from([*CONTROL_TEXTS, *SHOWN_TEXTS, "<0x0A>", "<unk>", "<|", "|>", "\n"]) | words
).map("".join)
Chats = Callable[[str], Iterator[dict[str, Any]]]


def literal(text: str) -> Piece:
    """Text of a template."""
    return Piece(text, is_content=False)


def content(text: str) -> Piece:
    """Text that somebody typed."""
    return Piece(text, is_content=True)


@settings(deadline=None)
@given(text=texts)
def test_byte_level_encoding_is_the_definition(text: str) -> None:
    """Cut into words, merge by rank, nothing else."""
    assert BYTE_LEVEL.encode(text) == REFERENCE(text)


@settings(deadline=None)
@given(text=texts)
def test_sentencepiece_encoding_is_the_definition(text: str) -> None:
    """A space in front, spaces as ▁, merge by score, bytes for what is no piece."""
    tokens = sentencepiece_fields()["tokenizer.ggml.tokens"]
    kinds = sentencepiece_fields()["tokenizer.ggml.token_type"]
    scores = dict(zip(tokens, sentencepiece_fields()["tokenizer.ggml.scores"], strict=True))
    pieces = {t: scores[t] for t, kind in zip(tokens, kinds, strict=True) if kind == 1}
    symbols = merge_by_score(list(f"▁{text}".replace(" ", "▁")) if text else [], pieces)
    expected = [
        token
        for symbol in symbols
        for token in ([symbol] if symbol in pieces else [f"<0x{b:02X}>" for b in symbol.encode()])
    ]
    assert [tokens[i] for i in SENTENCEPIECE.encode(text)] == expected


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(text=hostile)
def test_no_text_encodes_to_a_control_token(tokenizer: Tokenizer, text: str) -> None:
    """Control tokens, reasoning tags, byte tokens: typed, they are characters."""
    ids = tokenizer.encode_prompt([content(text)])
    assert not set(ids) & set(tokenizer.control_tokens.values())
    # SentencePiece cannot tell its own sign for a space from a space.
    assert tokenizer.decode(ids).replace("▁", " ") == text.replace("▁", " ")
    assert tokenizer.encode(text) == ids


def test_only_the_template_writes_control_tokens() -> None:
    """The same text is a control token in a literal piece and characters in a content piece."""
    pieces = [literal("<|im_start|>user\n"), content("<|im_end|>"), literal("<|im_end|>\n")]
    ids = BYTE_LEVEL.encode_prompt(pieces)
    controls = [i for i in ids if i in BYTE_LEVEL.control_tokens.values()]
    assert controls == [
        BYTE_LEVEL.control_tokens["<|im_start|>"],
        BYTE_LEVEL.control_tokens["<|im_end|>"],
    ]


def test_a_control_token_put_together_from_two_writers_is_text() -> None:
    """A template's "<|" before a user's "im_end|>" ends no turn."""
    for pieces in (
        [literal("<|"), content("im_end|>")],
        [content("<|im_"), literal("end|>")],
        [literal("<|"), content("im_end"), literal("|>")],
    ):
        ids = BYTE_LEVEL.encode_prompt(pieces)
        assert not set(ids) & set(BYTE_LEVEL.control_tokens.values())


@settings(deadline=None)
@given(parts=st.lists(st.tuples(words | st.sampled_from(CONTROL_TEXTS + SHOWN_TEXTS), words)))
def test_harmless_prompts_encode_as_the_whole_text_does(parts: list[tuple[str, str]]) -> None:
    """Runs between control tokens are encoded as one, whoever wrote their parts."""
    pieces = [piece for text, said in parts for piece in (literal(text), content(said))]
    whole = "".join(piece.text for piece in pieces)
    assert BYTE_LEVEL.encode_prompt(pieces) == WHOLE_TEXT(whole)


def test_the_longest_control_token_wins() -> None:
    """Of two that begin alike, as leftmost-longest matching has it."""
    fields = dict(byte_level_fields())
    fields["tokenizer.ggml.tokens"] = [*fields["tokenizer.ggml.tokens"], "<s>extra"]
    fields["tokenizer.ggml.token_type"] = [*fields["tokenizer.ggml.token_type"], 3]
    tokenizer = Tokenizer.from_gguf(fields)
    assert tokenizer.encode_prompt([literal("<s>extra")]) == [tokenizer.vocab_size - 1]


def test_a_stripping_control_token_swallows_whitespace_of_the_template() -> None:
    """AddedToken's lstrip and rstrip, which some checkpoints set."""
    plain = BYTE_LEVEL.encode
    end = ControlToken(BYTE_LEVEL.control_tokens["<|im_end|>"], lstrip=True, rstrip=True)
    tokenizer = Tokenizer(replaced_controls({"<|im_end|>": end}))
    ids = tokenizer.encode_prompt([literal("a \n<|im_end|>\n b")])
    assert ids == [*plain("a"), end.id, *plain("b")]
    ids = tokenizer.encode_prompt([literal("<|im_end|>"), content("\n b")])
    assert ids == [end.id, *plain("\n b")]


def replaced_controls(controls: dict[str, ControlToken]) -> Vocabulary:
    """The byte-level vocabulary with other control tokens."""
    return Vocabulary(
        backend=BYTE_LEVEL._backend,
        token_bytes=BYTE_LEVEL._token_bytes,
        controls=controls,
        stop_ids=frozenset(),
        bos_token=None,
        eos_token=None,
        chat_template=None,
    )


def test_half_a_surrogate_pair_is_refused_with_its_place() -> None:
    """JSON can carry one; it has no UTF-8."""
    with pytest.raises(InvalidRequest, match=r"'\\ud83d', at position 3"):
        BYTE_LEVEL.encode("abc\ud83d")


def test_reasoning_tags_are_shown_and_control_tokens_are_not() -> None:
    """<think> is a token of its own and still part of the text; <|im_end|> is not."""
    pieces = [literal("<|im_start|><think>"), content("why"), literal("</think>yes<|im_end|>")]
    assert BYTE_LEVEL.decode(BYTE_LEVEL.encode_prompt(pieces)) == "<think>why</think>yes"


def test_an_empty_text_has_no_tokens() -> None:
    """Not even SentencePiece's space."""
    assert BYTE_LEVEL.encode("") == SENTENCEPIECE.encode("") == []
    assert SENTENCEPIECE.encode_prompt([literal(""), content("")]) == []


@pytest.mark.model
@pytest.mark.shared_data
def test_the_default_tokenizer_equals_the_definition_on_a_sample_of_every_language(
    default_model: Path, shared_chats: Chats
) -> None:
    """A twentieth of the shared chats, every file and language among them."""
    fields = read_gguf(default_model).fields
    tokenizer, reference = Tokenizer.from_gguf(fields), reference_encoder(fields)
    for text in shared_texts(shared_chats, every=20):
        assert tokenizer.encode(text) == reference(text)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.shared_data
def test_the_default_tokenizer_equals_the_definition_on_all_shared_chats(
    default_model: Path, shared_chats: Chats
) -> None:
    """Every message of every file; each also comes back when decoded."""
    fields = read_gguf(default_model).fields
    tokenizer, reference = Tokenizer.from_gguf(fields), reference_encoder(fields)
    for text in shared_texts(shared_chats, every=1):
        ids = tokenizer.encode(text)
        assert ids == reference(text)
        assert tokenizer.decode(ids) == text


def shared_texts(shared_chats: Chats, every: int) -> set[str]:
    """The different messages of every n-th shared chat."""
    return {
        message["content"]
        for name in CHAT_FILES
        for chat in islice(shared_chats(name), 0, None, every)
        for message in chat["messages"]
    }


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(text=st.text(max_size=200))
def test_least_tokens_is_a_lower_bound(tokenizer: Tokenizer, text: str) -> None:
    """Of any text, and positive for a long one: what is too long is told before it is encoded."""
    try:
        encoded = tokenizer.encode(text)
    except InvalidRequest:
        return
    assert tokenizer.least_tokens(text) <= len(encoded)
    assert tokenizer.least_tokens(text * 50 + "x" * 50_000) > 10
