"""Hugging Face folders: tokenizer.json, and what the files beside it add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.prompt import Piece
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.vocabularies import (
    CONTROL_TEXTS,
    SENTENCES,
    SHOWN_TEXTS,
    byte_level_fields,
    sentencepiece_fields,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The byte-level vocabulary as transformers saves it."""
    byte_level_backend().save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, "tokenizer_config.json", {"eos_token": {"content": "</s>"}, "bos_token": None})
    return tmp_path


def byte_level_backend() -> Backend:
    """The tokenizer of `byte_level_fields` with its control tokens added, and a BOS put first."""
    fields = byte_level_fields()
    vocab = {token: i for i, token in enumerate(fields["tokenizer.ggml.tokens"])}
    merges = [(m.split(" ")[0], m.split(" ")[1]) for m in fields["tokenizer.ggml.merges"]]
    backend = Backend(models.BPE(vocab, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    backend.decoder = decoders.ByteLevel()
    bos = ("<s>", vocab["<s>"])
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[bos]
    )
    backend.add_special_tokens([AddedToken(text, normalized=False) for text in CONTROL_TEXTS])
    backend.add_tokens([AddedToken(text, normalized=False) for text in SHOWN_TEXTS])
    return backend


def sentencepiece_backend(
    extra: tuple[str, ...] = (), extra_merges: tuple[tuple[str, str], ...] = ()
) -> Backend:
    """The tokenizer of `sentencepiece_fields`, without the parts that treat spaces."""
    fields = sentencepiece_fields()
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    vocab = {token: i for i, token in enumerate((*tokens, *extra))}
    normal = [token for token, kind in zip(tokens, types, strict=True) if kind == 1]
    merges = [
        (piece[:cut], piece[cut:])
        for piece in normal
        for cut in range(1, len(piece))
        if piece[:cut] in normal and piece[cut:] in normal
    ]
    backend = Backend(
        models.BPE(vocab, [*merges, *extra_merges], unk_token="<unk>", byte_fallback=True)
    )
    backend.add_special_tokens(
        [
            AddedToken(t, normalized=False)
            for t, kind in zip(tokens, types, strict=True)
            if kind < 4 and kind > 1
        ]
    )
    return backend


def write(path: Path, name: str, content: Any) -> None:
    """One of the folder's JSON files."""
    (path / name).write_text(json.dumps(content), encoding="utf-8")


def test_a_folder_and_a_gguf_of_one_vocabulary_are_the_same_tokenizer(folder: Path) -> None:
    """Ids, control tokens, stop ids, decoding; the post-processor's BOS is not added."""
    ours, gguf = Tokenizer.from_directory(folder), Tokenizer.from_gguf(byte_level_fields())
    for text in (*SENTENCES, *CONTROL_TEXTS, *SHOWN_TEXTS):
        assert ours.encode(text) == gguf.encode(text)
        assert ours.decode(ours.encode(text)) == text
    assert ours.control_tokens == gguf.control_tokens
    assert ours.stop_ids == gguf.stop_ids
    assert ours.vocab_size == gguf.vocab_size
    every_id = range(ours.vocab_size)
    assert ours.decode(every_id) == gguf.decode(every_id)


def test_sentencepiece_with_a_space_before_every_run(tmp_path: Path) -> None:
    """Llama 2's tokenizer.json: a prepending normaliser, a stripping decoder."""
    backend = sentencepiece_backend()
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    check_sentencepiece(tmp_path, backend)
    ours, gguf = Tokenizer.from_directory(tmp_path), Tokenizer.from_gguf(sentencepiece_fields())
    assert [ours.encode(text) for text in SENTENCES] == [gguf.encode(text) for text in SENTENCES]


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_sentencepiece_with_a_metaspace(tmp_path: Path, scheme: Any) -> None:
    """Newer files: the space goes before the prompt's first text, before every run, or nowhere."""
    backend = sentencepiece_backend()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme, split=False)]
    )
    check_sentencepiece(tmp_path, backend)


def check_sentencepiece(path: Path, backend: Backend) -> None:
    """Equal to the whole text through the tokenizers package, at the start and later on."""
    backend.save(str(path / "tokenizer.json"))
    ours = Tokenizer.from_directory(path)
    for text in (*SENTENCES, " led by a space", "▁"):
        assert ours.encode(text) == backend.encode(text, add_special_tokens=False).ids
        for parts in (["<s>", text, "</s>", text], [text, "<s>", text]):
            pieces = [Piece(part, is_content=part == text) for part in parts]
            expected = backend.encode("".join(parts), add_special_tokens=False).ids
            assert ours.encode_prompt(pieces) == expected
    for text in SENTENCES:
        assert ours.decode(ours.encode(text)) == text


def test_a_continuing_prompt_gets_no_first_space(tmp_path: Path) -> None:
    """Where only the conversation's first text gets one, an appended turn gets none."""
    backend = sentencepiece_backend()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_directory(tmp_path)
    pieces = [Piece("Hello", is_content=True)]
    assert ours.encode_prompt(pieces) == ours.encode_prompt(
        [Piece(" Hello", is_content=True)], at_start=False
    )
    assert ours.encode_prompt(pieces, at_start=False) != ours.encode_prompt(pieces)


def test_old_files_write_merges_as_text(folder: Path) -> None:
    """ "a b" instead of ["a", "b"]."""
    source = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    expected = Tokenizer.from_directory(folder).encode(SENTENCES[0])
    source["model"]["merges"] = [" ".join(pair) for pair in source["model"]["merges"]]
    write(folder, "tokenizer.json", source)
    assert Tokenizer.from_directory(folder).encode(SENTENCES[0]) == expected


def test_merges_that_spell_a_control_token_are_left_out(tmp_path: Path) -> None:
    """Conversions from SentencePiece have them: "<" and "s>" make "<s>" there."""
    backend = sentencepiece_backend(extra=("<", ">", "s>"), extra_merges=(("s", ">"), ("<", "s>")))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Replace("▁", " ")
    backend.save(str(tmp_path / "tokenizer.json"))
    backend.encode_special_tokens = True
    assert backend.token_to_id("<s>") in backend.encode("a<s>", add_special_tokens=False).ids
    ours = Tokenizer.from_directory(tmp_path)
    expected = [backend.token_to_id(token) for token in ("a", "<", "s>")]
    assert ours.encode("a<s>") == expected


def test_an_added_token_of_whitespace_is_text(folder: Path) -> None:
    """It is found in what people type, as the checkpoint was trained."""
    backend = byte_level_backend()
    backend.add_tokens([AddedToken("\n\n\n", normalized=False)])
    backend.save(str(folder / "tokenizer.json"))
    ours = Tokenizer.from_directory(folder)
    assert "\n\n\n" not in ours.control_tokens
    expected = backend.encode("a\n\n\nb", add_special_tokens=False).ids
    assert ours.encode("a\n\n\nb") == expected
    assert ours.decode(expected) == "a\n\n\nb"


def test_generation_config_names_the_stop_ids(folder: Path) -> None:
    """Several, or one; config.json where there is none."""
    write(folder, "config.json", {"eos_token_id": 5})
    assert 5 in Tokenizer.from_directory(folder).stop_ids
    write(folder, "generation_config.json", {"eos_token_id": [6, 7]})
    stops = Tokenizer.from_directory(folder).stop_ids
    assert {6, 7} <= stops
    assert 5 not in stops


def test_the_template_is_found_wherever_it_is(folder: Path) -> None:
    """Named ones, one, or a file of its own, which wins."""
    assert Tokenizer.from_directory(folder).chat_template is None
    several = [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]
    write(folder, "tokenizer_config.json", {"chat_template": several})
    assert Tokenizer.from_directory(folder).chat_template == "yes"
    write(folder, "tokenizer_config.json", {"chat_template": "one"})
    assert Tokenizer.from_directory(folder).chat_template == "one"
    (folder / "chat_template.jinja").write_text("file", encoding="utf-8")
    assert Tokenizer.from_directory(folder).chat_template == "file"


def test_special_tokens_map_stands_in_for_the_config(folder: Path) -> None:
    """bos and eos, as text or as an object."""
    write(folder, "tokenizer_config.json", {})
    write(folder, "special_tokens_map.json", {"bos_token": "<s>", "eos_token": {"content": "</s>"}})
    tokenizer = Tokenizer.from_directory(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no tokenizer.json"),
        ("{", "cannot be read"),
        ("[]", "holds no object"),
        ('{"model": {"type": "Unigram"}}', 'is of type "Unigram"; supported: "BPE"'),
        ('{"model": {"type": "BPE"}}', "is damaged: KeyError"),
    ],
)
def test_a_bad_folder_is_refused_with_the_file_and_the_reason(
    tmp_path: Path, content: str | None, message: str
) -> None:
    """Missing, damaged, or of a kind whose special tokens text could reach."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelLoadError, match=message):
        Tokenizer.from_directory(tmp_path)


def test_an_unsupported_decoder_is_refused(folder: Path) -> None:
    """Wrong bytes would be shown otherwise."""
    backend = byte_level_backend()
    backend.decoder = decoders.WordPiece()
    backend.save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelLoadError, match="unsupported decoder"):
        Tokenizer.from_directory(folder)


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize(("content", "message"), [("[1]", "no object"), ('{"a"', "cannot be read")])
def test_a_damaged_file_is_named(folder: Path, name: str, content: str, message: str) -> None:
    """The error has the file's name and what is wrong with it."""
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ModelLoadError, match=f"{name}.*{message}"):
        Tokenizer.from_directory(folder)


@pytest.mark.parametrize("changes", [{"content": 1.5}, {"id": -1}, {"id": 2**40}, {"id": "7"}])
def test_an_impossible_added_token_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    """Before memory is taken for the ids below it."""
    source = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    source["added_tokens"][0].update(changes)
    write(folder, "tokenizer.json", source)
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json is damaged"):
        Tokenizer.from_directory(folder)
