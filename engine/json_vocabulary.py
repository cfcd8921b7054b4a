"""The tokenizer of a Hugging Face folder: tokenizer.json and the small files beside it.

Owns the meaning of those files. Knows no template and no conversation. transformers is not
needed, and would put the control tokens back into reach of any text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.vocabulary import (
    ControlToken,
    Vocabulary,
    build_bpe,
    byte_level_bytes,
    find_stop_ids,
    require_byte_tokens,
    sentencepiece_bytes,
)

Json = Any

# Four times the largest vocabulary in use; an id above it is damage, and would cost the memory of
# all ids below it.
MAX_VOCABULARY = 1 << 20


def read_json_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of the folder `path`.

    Raises ModelLoadError when tokenizer.json is missing, damaged or not a BPE.
    """
    source = _load(path / "tokenizer.json")
    if source is None:
        raise ModelLoadError(
            f"{path} has no tokenizer.json (a tokenizer.model alone is not supported)"
        )
    settings = _load(path / "tokenizer_config.json") or {}
    specials = _load(path / "special_tokens_map.json") or {}
    try:
        return _read(path, source, {**specials, **settings})
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelLoadError(f"{path / 'tokenizer.json'} is damaged: {error!r}") from error


def _read(path: Path, source: Json, settings: Json) -> Vocabulary:
    model = source["model"]
    if model.get("type") != "BPE":
        raise ModelLoadError(
            f'the tokenizer of {path} is of type "{model.get("type")}"; supported: "BPE"'
        )
    added = source["added_tokens"]
    _check_added(added)
    plain = [token for token in added if _is_plain(token)]
    controls = {
        token["content"]: ControlToken(token["id"], token["lstrip"], token["rstrip"])
        for token in added
        if not _is_plain(token)
    }
    vocab: dict[str, int] = {**model["vocab"], **{t["content"]: t["id"] for t in plain}}
    bpe = build_bpe(
        vocab,
        _pairs(model["merges"]),
        frozenset(controls),
        byte_fallback=model.get("byte_fallback", False),
        ignore_merges=model.get("ignore_merges", False),
    )
    prefix_first = _take_first_prefix(source.get("pre_tokenizer"))
    backend = _empty_copy(path, source)
    backend.model = bpe
    backend.add_tokens([AddedToken(t["content"], normalized=t["normalized"]) for t in plain])
    eos = _token_text(settings.get("eos_token"))
    named = [*_eos_ids(path), *([controls[eos].id] if eos in controls else [])]
    return Vocabulary(
        backend=backend,
        token_bytes=_token_bytes(path, source, vocab),
        controls=controls,
        stop_ids=find_stop_ids(controls, named),
        bos_token=_token_text(settings.get("bos_token")),
        eos_token=eos,
        chat_template=_chat_template(path, settings),
        skip_space=_skips_space(source["decoder"]),
        prefix_first=prefix_first,
    )


def _check_added(added: Json) -> None:
    """Raise ValueError for an added token without a text, or with an id that none has."""
    for token in added:
        if not isinstance(token["content"], str):
            raise ValueError(f"an added token's content is {token['content']!r}")
        if not isinstance(token["id"], int) or not 0 <= token["id"] < MAX_VOCABULARY:
            raise ValueError(f"the id of {token['content']!r} is {token['id']!r}")


def _empty_copy(path: Path, source: Json) -> tokenizers.Tokenizer:
    """The tokenizer without vocabulary, added tokens, post-processing or truncation."""
    empty = {
        **source,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
        "added_tokens": [],
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(empty))
    except Exception as error:  # the Rust side raises no more precise class
        raise ModelLoadError(f"{path / 'tokenizer.json'} cannot be read: {error}") from error


def _token_bytes(path: Path, source: Json, vocab: Mapping[str, int]) -> tuple[bytes, ...]:
    """What each id shows; special tokens show nothing, other added ones their text."""
    added = source["added_tokens"]
    size = 1 + max((*vocab.values(), *(token["id"] for token in added)))
    texts = [""] * size
    for text, token_id in vocab.items():
        texts[token_id] = text
    kinds = {step["type"] for step in _steps(source["decoder"])}
    if "ByteLevel" in kinds:
        data = byte_level_bytes(texts)
    elif kinds & {"Replace", "Metaspace"}:
        require_byte_tokens(vocab)
        data = sentencepiece_bytes(texts)
    else:
        raise ModelLoadError(f"{path / 'tokenizer.json'} has an unsupported decoder: {kinds}")
    for token in added:
        data[token["id"]] = b"" if token["special"] else token["content"].encode()
    return tuple(data)


def _take_first_prefix(pre_tokenizer: Json) -> bool:
    """Whether only a prompt's first text gets a space; if so the backend is told to add none.

    The backend sees one run of text at a time and would take each for the first.
    """
    for step in _steps(pre_tokenizer):
        if step["type"] == "Metaspace" and step.get("prepend_scheme") == "first":
            step["prepend_scheme"] = "never"
            return True
    return False


def _skips_space(decoder: Json) -> bool:
    return any(
        (step["type"] == "Strip" and step["start"] > 0)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
        for step in _steps(decoder)
    )


def _steps(component: Json) -> Iterator[Json]:
    """The parts of a pre-tokenizer or decoder, sequences flattened."""
    if component is None:
        return
    if component["type"] != "Sequence":
        yield component
        return
    for inner in component.get("pretokenizers", component.get("decoders", [])):
        yield from _steps(inner)


def _pairs(merges: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Merges, written as pairs or, in older files, with a space between."""
    for merge in merges:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        yield left, right


def _is_plain(token: Json) -> bool:
    """An added token of nothing but whitespace is text by nature."""
    return not token["special"] and not token["content"].replace("▁", " ").strip()


def _eos_ids(path: Path) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        ids = (_load(path / name) or {}).get("eos_token_id")
        if ids is not None:
            return list(ids) if isinstance(ids, list) else [ids]
    return []


def _chat_template(path: Path, settings: Json) -> str | None:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return None if template is None else str(template)


def _token_text(value: Json) -> str | None:
    text = value["content"] if isinstance(value, dict) else value
    return None if text is None else str(text)


def _load(path: Path) -> Json:
    """The file's JSON; None where there is no such file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{path} holds no object but {str(value)[:40]!r}")
    return value
