"""The tokenizer inside a GGUF file, built from the file's own fields.

Owns the meaning of the `tokenizer.*` fields. Knows no file: the fields come as a mapping from
key to plain Python value. (transformers' conversion needs 5 to 12 s for 49k tokens, this 0.2 s,
and it loses the digit rule of the `smollm` pre-tokeniser.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import AddedToken, normalizers

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.pre_tokenizer import PRE_TOKENIZATIONS
from radixchat.engine.vocabulary import (
    ControlToken,
    Vocabulary,
    build_bpe,
    byte_level_bytes,
    find_stop_ids,
    require_byte_tokens,
    sentencepiece_bytes,
)

Fields = Mapping[str, Any]

_STOP_FIELDS = ("eos_token_id", "eot_token_id", "eom_token_id")
# No text merges into this form: byte-level cutting always splits it at the bars. A token that
# has it is a control token, even where a converter has marked it as a normal one.
_CONTROL_FORM = re.compile(r"<\|[^|<>\s]+\|>")
# The same for the tokens that the file itself names as beginning or ending a text; a newline
# named so stays text.
_NAMED_FORM = re.compile(r"<.+>|\[.+\]")


class TokenType(IntEnum):
    """GGUF's `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def read_gguf_vocabulary(fields: Fields) -> Vocabulary:
    """The vocabulary that `fields` describe.

    Raises ModelLoadError for a missing field, an unsupported tokenizer model or an unknown
    pre-tokeniser, each by name.
    """
    model = _required(fields, "tokenizer.ggml.model")
    tokens: list[str] = _required(fields, "tokenizer.ggml.tokens")
    types: list[int] = _required(fields, "tokenizer.ggml.token_type")
    if len(tokens) != len(types):
        raise ModelLoadError(f"the GGUF names {len(tokens)} tokens but {len(types)} token types")
    controls = _find_controls(fields, tokens, types)
    match model:
        case "gpt2":
            backend, data = _byte_level(fields, tokens, types, controls)
        case "llama":
            backend, data = _sentencepiece(fields, tokens, types, controls)
        case _:
            raise ModelLoadError(
                f'the GGUF\'s tokenizer.ggml.model is "{model}"; supported: "gpt2", "llama"'
            )
    _add_plain_tokens(backend, tokens, types, controls)
    stop_named = [token_id for key in _STOP_FIELDS if (token_id := _id(fields, key)) is not None]
    return Vocabulary(
        backend=backend,
        token_bytes=tuple(_shown(data, tokens, types, controls)),
        controls=controls,
        stop_ids=find_stop_ids(controls, stop_named),
        bos_token=_text(fields, tokens, "bos_token_id"),
        eos_token=_text(fields, tokens, "eos_token_id"),
        chat_template=fields.get("tokenizer.chat_template"),
        skip_space=model == "llama" and _space_prefix(fields),
    )


def _find_controls(
    fields: Fields, tokens: Sequence[str], types: Sequence[int]
) -> dict[str, ControlToken]:
    """Every token that text must not produce.

    User-defined tokens are among them: a Qwen user's "<tool_call>" is text. Those of nothing
    but whitespace are text by nature.
    """
    marked = {TokenType.UNKNOWN, TokenType.CONTROL}
    named = {_id(fields, key) for key in ("bos_token_id", *_STOP_FIELDS)}
    return {
        text: ControlToken(token_id)
        for token_id, (text, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in marked
        or (kind == TokenType.USER_DEFINED and not _is_blank(text))
        or (token_id in named and _NAMED_FORM.fullmatch(text))
        or _CONTROL_FORM.fullmatch(text)
    }


def _byte_level(
    fields: Fields,
    tokens: Sequence[str],
    types: Sequence[int],
    controls: Mapping[str, ControlToken],
) -> tuple[tokenizers.Tokenizer, list[bytes]]:
    name = _required(fields, "tokenizer.ggml.pre")
    cut = PRE_TOKENIZATIONS.get(name)
    if cut is None:
        raise ModelLoadError(
            f'the GGUF\'s pre-tokeniser "{name}" is unknown; known: '
            + ", ".join(sorted(PRE_TOKENIZATIONS))
        )
    bpe = build_bpe(
        {text: token_id for token_id, text in enumerate(tokens)},
        _pairs(_required(fields, "tokenizer.ggml.merges")),
        _excluded(tokens, types, controls),
        ignore_merges=cut.ignore_merges,
    )
    backend = tokenizers.Tokenizer(bpe)
    backend.pre_tokenizer = cut.build()
    if (normalizer := cut.normalizer()) is not None:
        backend.normalizer = normalizer
    return backend, byte_level_bytes(tokens)


def _sentencepiece(
    fields: Fields,
    tokens: Sequence[str],
    types: Sequence[int],
    controls: Mapping[str, ControlToken],
) -> tuple[tokenizers.Tokenizer, list[bytes]]:
    if fields.get("tokenizer.ggml.remove_extra_whitespaces", False):
        raise ModelLoadError("the GGUF's tokenizer removes extra whitespace: not supported")
    vocab = {text: token_id for token_id, text in enumerate(tokens)}
    require_byte_tokens(vocab)
    scores: list[float] = _required(fields, "tokenizer.ggml.scores")
    pieces = {
        text: score
        for text, kind, score in zip(tokens, types, scores, strict=True)
        if kind == TokenType.NORMAL and text not in controls
    }
    bpe = build_bpe(
        vocab, _merges_of(pieces), _excluded(tokens, types, controls), byte_fallback=True
    )
    backend = tokenizers.Tokenizer(bpe)
    escape = normalizers.Replace(" ", "▁")
    prefix = [normalizers.Prepend("▁")] if _space_prefix(fields) else []
    backend.normalizer = normalizers.Sequence([*prefix, escape])
    return backend, sentencepiece_bytes(tokens)


def _merges_of(pieces: Mapping[str, float]) -> list[tuple[str, str]]:
    """SentencePiece's rule as a list of merges: the pair whose union scores best goes first."""
    by_score = sorted(pieces, key=lambda piece: -pieces[piece])
    return [
        (piece[:cut], piece[cut:])
        for piece in by_score
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]


def _excluded(
    tokens: Sequence[str], types: Sequence[int], controls: Mapping[str, ControlToken]
) -> frozenset[str]:
    """Control tokens, and padding that stands for nothing."""
    unused = (
        text
        for text, kind in zip(tokens, types, strict=True)
        if kind not in (TokenType.NORMAL, TokenType.BYTE, TokenType.USER_DEFINED)
    )
    return frozenset((*controls, *unused))


def _add_plain_tokens(
    backend: tokenizers.Tokenizer,
    tokens: Sequence[str],
    types: Sequence[int],
    controls: Mapping[str, ControlToken],
) -> None:
    """Let the backend find the added tokens that are text by nature, before it merges."""
    backend.add_tokens(
        [
            AddedToken(text, normalized=False)
            for text, kind in zip(tokens, types, strict=True)
            if kind == TokenType.USER_DEFINED and text not in controls
        ]
    )


def _shown(
    data: Sequence[bytes],
    tokens: Sequence[str],
    types: Sequence[int],
    controls: Mapping[str, ControlToken],
) -> Iterator[bytes]:
    """What each token shows: text and user-defined tokens (<think>) do, the rest do not."""
    for token, text, kind in zip(data, tokens, types, strict=True):
        if kind == TokenType.USER_DEFINED:
            yield text.encode()
        elif kind in (TokenType.NORMAL, TokenType.BYTE) and text not in controls:
            yield token
        else:
            yield b""


def _pairs(merges: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if not left or not right:
            raise ModelLoadError(f"merge {index} of the GGUF is {merge!r}, not two tokens")
        yield left, right


def _is_blank(text: str) -> bool:
    return not text.replace("▁", " ").strip()


def _space_prefix(fields: Fields) -> bool:
    return bool(fields.get("tokenizer.ggml.add_space_prefix", True))


def _required(fields: Fields, key: str) -> Any:
    if key not in fields:
        raise ModelLoadError(f"the GGUF has no field {key}")
    return fields[key]


def _id(fields: Fields, key: str) -> int | None:
    value = fields.get(f"tokenizer.ggml.{key}")
    return None if value is None else int(value)


def _text(fields: Fields, tokens: Sequence[str], key: str) -> str | None:
    token_id = _id(fields, key)
    if token_id is None:
        return None
    if not 0 <= token_id < len(tokens):
        raise ModelLoadError(
            f"the GGUF's {key} is {token_id}, but it has only {len(tokens)} tokens"
        )
    return tokens[token_id]
