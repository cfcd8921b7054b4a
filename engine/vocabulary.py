"""What a checkpoint's tokenizer is, from whichever file it was read.

Owns the values that `gguf_vocabulary.py` and `json_vocabulary.py` produce and `tokenizer.py`
works with, and the two ways in which a token's text stands for bytes. Knows no file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers.models import BPE

from radixchat.engine.errors import ModelLoadError

# What checkpoints call the token that ends a turn or a text. Converters name one of them as
# "eos"; a model that was tuned for chat samples another (SmolLM2 and Qwen <|im_end|>, Llama 3
# <|eot_id|>, Gemma <end_of_turn>), and generation has to end at any.
END_TOKENS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "</s>",
)


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A token that only a template or the model itself can produce.

    lstrip, rstrip: in a template's text it swallows the whitespace before, after it.
    """

    id: int
    lstrip: bool = False
    rstrip: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One checkpoint's tokenizer.

    backend: encodes ordinary text, and holds no control token, so that no text can produce one.
    token_bytes: what each id shows, by id; b"" for those never shown.
    skip_space: SentencePiece writes a text's first word with a space that is not part of it.
    prefix_first: that space belongs before the first text of a prompt only, and the backend does
    not add it. (Where it belongs before every run of text, the backend does.)
    """

    backend: tokenizers.Tokenizer
    token_bytes: tuple[bytes, ...]
    controls: Mapping[str, ControlToken]
    stop_ids: frozenset[int]
    bos_token: str | None
    eos_token: str | None
    chat_template: str | None
    skip_space: bool = False
    prefix_first: bool = False


def build_bpe(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    excluded: frozenset[str],
    *,
    byte_fallback: bool = False,
    ignore_merges: bool = False,
) -> BPE:
    """The merging model over `vocab` without the `excluded` tokens.

    An excluded token cannot come out of text: it is not in the model, and merges that would
    build it or use it are left out. Raises ModelLoadError when a merge names an unknown token.
    """
    kept = {text: token_id for text, token_id in vocab.items() if text not in excluded}
    usable = [
        (left, right)
        for left, right in merges
        if left + right not in excluded and left not in excluded and right not in excluded
    ]
    try:
        return BPE(kept, usable, byte_fallback=byte_fallback, ignore_merges=ignore_merges)
    except Exception as error:  # the Rust side raises no more precise class
        raise ModelLoadError(f"the merges do not fit the vocabulary: {error}") from error


def find_stop_ids(controls: Mapping[str, ControlToken], named: Iterable[int]) -> frozenset[int]:
    """The ids that end an answer: those the checkpoint names, and every known end token it has."""
    known = (controls[text].id for text in END_TOKENS if text in controls)
    return frozenset((*named, *known))


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: character -> byte.

    Bytes that print as themselves in Latin-1 stand for themselves, the other 68 take the
    characters from U+0100 on, in order.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


def byte_level_bytes(tokens: Sequence[str]) -> list[bytes]:
    """The bytes of each token of a byte-level vocabulary.

    A token with a character outside GPT-2's alphabet was added as plain text and is just that.
    """
    # The rest of Latin-1 is moved out of it, so that the encoding below refuses every character
    # that is not in the alphabet (three times as fast as looking at each).
    latin = dict.fromkeys(range(256), "\uffff")
    latin |= {ord(char): chr(byte) for char, byte in byte_alphabet().items()}

    def to_bytes(token: str) -> bytes:
        try:
            return token.translate(latin).encode("latin-1")
        except UnicodeEncodeError:
            return token.encode()

    return [to_bytes(token) for token in tokens]


_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def sentencepiece_bytes(tokens: Sequence[str]) -> list[bytes]:
    """The bytes of each token of a SentencePiece vocabulary: ▁ is a space, <0x0A> is a byte."""

    def to_bytes(token: str) -> bytes:
        if byte := _BYTE_TOKEN.fullmatch(token):
            return bytes.fromhex(byte[1])
        return token.replace("▁", " ").encode()

    return [to_bytes(token) for token in tokens]


def require_byte_tokens(vocab: Mapping[str, int]) -> None:
    """Raises ModelLoadError unless any text can be encoded, if need be byte by byte."""
    missing = [text for byte in range(256) if (text := f"<0x{byte:02X}>") not in vocab]
    if missing:
        raise ModelLoadError(
            f"the SentencePiece vocabulary lacks {len(missing)} of the 256 byte tokens, "
            f"{missing[0]} first: only vocabularies with byte fallback are supported"
        )
