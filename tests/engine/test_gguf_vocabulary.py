"""A GGUF's tokenizer fields: what they mean, and which are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.gguf import read_gguf
from radixchat.engine.pre_tokenizer import PRE_TOKENIZATIONS
from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.vocabularies import (
    CONTROL_TEXTS,
    SHOWN_TEXTS,
    byte_characters,
    byte_level_fields,
    sentencepiece_fields,
)


def changed(fields: Any, **changes: Any) -> dict[str, Any]:
    """The fields with some of `tokenizer.ggml.*` replaced, or removed where None."""
    renamed = {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return {key: value for key, value in {**fields, **renamed}.items() if value is not None}


def with_token(text: str, kind: int, **changes: Any) -> Tokenizer:
    """The byte-level tokenizer with one token more, as the last."""
    fields = byte_level_fields()
    tokens = [*fields["tokenizer.ggml.tokens"], text]
    types = [*fields["tokenizer.ggml.token_type"], kind]
    return Tokenizer.from_gguf(changed(fields, tokens=tokens, token_type=types, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre": "klingon"}, '"klingon" is unknown; known: .*smollm'),
        ({"pre": None}, "no field tokenizer.ggml.pre"),
        ({"model": "bert"}, 'is "bert"; supported: "gpt2", "llama"'),
        ({"model": None}, "no field tokenizer.ggml.model"),
        ({"tokens": None}, "no field tokenizer.ggml.tokens"),
        ({"token_type": None}, "no field tokenizer.ggml.token_type"),
        ({"token_type": [1, 1]}, "but 2 token types"),
        ({"merges": None}, "no field tokenizer.ggml.merges"),
        ({"merges": ["ab"]}, "merge 0 of the GGUF is 'ab'"),
        ({"merges": ["a ☃"]}, "merges do not fit the vocabulary"),
        ({"eos_token_id": 10**6}, "eos_token_id is 1000000"),
    ],
)
def test_what_is_missing_or_unsupported_is_named(changes: dict[str, Any], message: str) -> None:
    """Nothing is guessed: a wrong tokenizer would answer, only worse."""
    with pytest.raises(ModelLoadError, match=message):
        Tokenizer.from_gguf(changed(byte_level_fields(), **changes))


def test_sentencepiece_needs_scores_bytes_and_unchanged_whitespace() -> None:
    """What would make another text of it is refused."""
    fields = sentencepiece_fields()
    with pytest.raises(ModelLoadError, match=r"no field tokenizer\.ggml\.scores"):
        Tokenizer.from_gguf(changed(fields, scores=None))
    with pytest.raises(ModelLoadError, match="removes extra whitespace"):
        Tokenizer.from_gguf(changed(fields, remove_extra_whitespaces=True))
    tokens = [t if t != "<0x0A>" else "gone" for t in fields["tokenizer.ggml.tokens"]]
    with pytest.raises(ModelLoadError, match="lacks 1 of the 256 byte tokens, <0x0A>"):
        Tokenizer.from_gguf(changed(fields, tokens=tokens))


def test_sentencepiece_without_the_space_prefix_encodes_the_bare_text() -> None:
    """add_space_prefix says so; without the field it is on."""
    bare = Tokenizer.from_gguf(changed(sentencepiece_fields(), add_space_prefix=False))
    usual = Tokenizer.from_gguf(sentencepiece_fields())
    assert usual.encode("Hello") == bare.encode(" Hello")
    assert bare.decode(bare.encode(" Hello")) == " Hello"


def test_every_run_after_a_control_token_gets_sentencepieces_space() -> None:
    """As llama.cpp has it, whose format this is."""
    tokenizer = Tokenizer.from_gguf(sentencepiece_fields())
    pieces = [Piece("</s>", is_content=False), Piece("Hello", is_content=True)]
    assert tokenizer.encode_prompt(pieces) == [2, *tokenizer.encode("Hello")]


def test_control_unknown_and_user_defined_tokens_are_out_of_reach() -> None:
    """Types 2, 3 and 4 are control tokens, and a template can write each."""
    tokenizer = Tokenizer.from_gguf(byte_level_fields())
    assert set(tokenizer.control_tokens) == {*CONTROL_TEXTS, *SHOWN_TEXTS}
    for text, token_id in tokenizer.control_tokens.items():
        assert tokenizer.encode_prompt([Piece(text, is_content=False)]) == [token_id]


def test_a_control_token_marked_as_normal_is_recognised_by_its_form() -> None:
    """Converters have shipped <|im_end|> as text; nothing else looks like that."""
    tokenizer = with_token("<|turn_end|>", kind=1)
    assert tokenizer.control_tokens["<|turn_end|>"] == tokenizer.vocab_size - 1
    assert tokenizer.decode([tokenizer.vocab_size - 1]) == ""


def test_padding_can_neither_be_typed_nor_seen() -> None:
    """Unused tokens fill a vocabulary up; no template writes them either."""
    tokenizer = with_token("[PAD7]", kind=5)
    assert "[PAD7]" not in tokenizer.control_tokens
    assert tokenizer.vocab_size - 1 not in tokenizer.encode("[PAD7]")
    assert tokenizer.decode([tokenizer.vocab_size - 1]) == ""


def test_a_user_defined_token_of_whitespace_is_text() -> None:
    """Gemma has runs of newlines as added tokens: they are found in any text, before merging."""
    tokenizer = with_token("\n\n\n", kind=4)
    last = tokenizer.vocab_size - 1
    assert "\n\n\n" not in tokenizer.control_tokens
    assert tokenizer.encode("a\n\n\nb") == [*tokenizer.encode("a"), last, *tokenizer.encode("b")]
    assert tokenizer.decode([last]) == "\n\n\n"


def test_every_named_and_every_known_end_token_stops() -> None:
    """eos, eot and eom of the file, and what chat models are known to end turns with."""
    by_text = {t: i for i, t in enumerate(byte_level_fields()["tokenizer.ggml.tokens"])}
    usual = Tokenizer.from_gguf(byte_level_fields())
    known = ("</s>", "<|im_end|>", "<|endoftext|>", "<end_of_turn>", "<｜end▁of▁sentence｜>")
    assert usual.stop_ids == {by_text[text] for text in known}
    fields = changed(byte_level_fields(), eot_token_id=by_text["[/INST]"])
    assert by_text["[/INST]"] in Tokenizer.from_gguf(fields).stop_ids


def test_a_newline_that_ends_answers_stays_a_newline_in_text() -> None:
    """An eos that is ordinary text stops, but can still be typed and shown."""
    newline = byte_level_fields()["tokenizer.ggml.tokens"].index(byte_characters()[10])
    tokenizer = Tokenizer.from_gguf(changed(byte_level_fields(), eos_token_id=newline))
    assert newline in tokenizer.stop_ids
    assert tokenizer.encode("\n") == [newline]
    assert tokenizer.decode([newline]) == "\n"


def test_templates_get_the_tokens_that_the_file_names() -> None:
    """bos and eos by text; None where the file has none."""
    usual = Tokenizer.from_gguf(byte_level_fields())
    assert (usual.bos_token, usual.eos_token) == ("<s>", "</s>")
    without = Tokenizer.from_gguf(changed(byte_level_fields(), bos_token_id=None))
    assert without.bos_token is None


def test_pieces_that_spell_a_control_token_do_not_become_it() -> None:
    """SentencePiece cuts nothing first: "<" and "s>" may meet, and must not be a text's begin."""
    fields = sentencepiece_fields()
    added = ["<", ">", "s>"]
    tokenizer = Tokenizer.from_gguf(
        changed(
            fields,
            tokens=[*fields["tokenizer.ggml.tokens"], *added],
            token_type=[*fields["tokenizer.ggml.token_type"], 1, 1, 1],
            scores=[*fields["tokenizer.ggml.scores"], -900.0, -901.0, -902.0],
        )
    )
    first = len(fields["tokenizer.ggml.tokens"])
    assert tokenizer.encode("a<s>")[-2:] == [first, first + 2]


CUTS = {
    "smollm": ["don", "'t", " stop", "\n\n", "2", "0", "2", "4", " ", "1", "!?", " ", " Ok"],
    "gpt-2": ["don", "'t", " stop", "\n", "\n", "2024", " 1", "!?", " ", " Ok"],
    "llama-bpe": ["don", "'t", " stop", "\n\n", "202", "4", " ", "1", "!?", " ", " Ok"],
    "qwen2": ["don", "'t", " stop", "\n\n", "2", "0", "2", "4", " ", "1", "!?", " ", " Ok"],
    "tekken": ["don", "'t", " stop", "\n\n", "2", "0", "2", "4", " ", "1", "!?", " ", " Ok"],
}


@pytest.mark.parametrize("name", CUTS)
def test_each_pre_tokeniser_cuts_as_its_checkpoints_do(name: str) -> None:
    """One text where contractions, newlines, digits and spaces tell them apart."""
    cut = PRE_TOKENIZATIONS[name].build()
    words = [word for word, _ in cut.pre_tokenize_str("don't stop\n\n2024 1!?  Ok")]
    assert [word.replace("Ġ", " ").replace("Ċ", "\n") for word in words] == CUTS[name]


def test_tekken_splits_words_where_the_case_changes() -> None:
    """What tells it apart from Qwen's cut."""
    words = PRE_TOKENIZATIONS["tekken"].build().pre_tokenize_str("camelCase ABCdef a/b//\n")
    assert [w for w, _ in words] == ["camel", "Case", "ĠABCdef", "Ġa", "/b", "//Ċ"]


def test_a_word_that_is_a_token_is_taken_whole_where_the_checkpoint_does_so() -> None:
    """Llama 3 looks words up before it merges; GPT-2's kind reaches tokens by merges only."""
    llama = with_token("xyzzyx", kind=1, pre="llama-bpe")
    assert llama.encode("xyzzyx") == [llama.vocab_size - 1]
    smollm = with_token("xyzzyx", kind=1)
    assert smollm.vocab_size - 1 not in smollm.encode("xyzzyx")


def test_a_control_token_that_reads_like_a_word_cannot_be_looked_up() -> None:
    """Whole words are looked up among ordinary tokens only."""
    tokenizer = with_token("xyzzyx", kind=3, pre="llama-bpe")
    assert tokenizer.vocab_size - 1 not in tokenizer.encode("xyzzyx")
    assert tokenizer.decode(tokenizer.encode("xyzzyx")) == "xyzzyx"


def test_qwen_composes_characters_first() -> None:
    """Its checkpoints normalise to NFC: e and a combining accent are é."""
    qwen = Tokenizer.from_gguf(changed(byte_level_fields(), pre="qwen2"))
    assert qwen.encode("e\u0301") == qwen.encode("é")
    smollm = Tokenizer.from_gguf(byte_level_fields())
    assert smollm.encode("e\u0301") != smollm.encode("é")


@pytest.mark.model
def test_the_default_model_is_read_as_documented(default_model: Path) -> None:
    """SmolLM2: 49,152 tokens, 17 of them control tokens, two of which end answers."""
    tokenizer = Tokenizer.from_gguf(read_gguf(default_model).fields)
    assert tokenizer.vocab_size == 49152
    assert sorted(tokenizer.control_tokens.values()) == list(range(17))
    assert tokenizer.stop_ids == {0, 2}
    assert tokenizer.encode("\n\n") == [1116]
    assert tokenizer.encode("\n\nx")[:2] == [198, 198]
    assert tokenizer.chat_template is not None
