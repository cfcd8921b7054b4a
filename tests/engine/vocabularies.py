"""Small tokenizers that tests build themselves, and tokenization from its definition.

Owns a byte-level and a SentencePiece vocabulary as GGUF fields, learned from a few sentences of
many languages, and a reference that cuts and merges as the algorithms are defined, slowly. Knows
nothing of the code under test.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

# Every control token of the shared chat templates, and reasoning tags.
CONTROL_TEXTS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "<start_of_turn>",
    "<end_of_turn>",
    "[gMASK]",
    "<sop>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜end▁of▁sentence｜>",
)
SHOWN_TEXTS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

SENTENCES = (
    "Hello there, how are you? I'm fine; we've seen 12 users and 345 assistants.\n",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.\n\nDnes je 21. 3. 2024.\n",
    "שלום עולם, מה שלומך היום?  Привет, как дела?\tΚαλημέρα κόσμε.\n",
    "你好，世界！今天天气怎么样？ こんにちは世界。 안녕하세요 세계.\n",
    "Emoji: 👩‍👩‍👧‍👦 👍🏽 🇨🇿 ❤️ — done…\n   indented code():\n        return 'x' * 3\n",
    "नमस्ते दुनिया। สวัสดีชาวโลก مرحبا بالعالم\n",
)

_WHITE_SPACE = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B)
}
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


def byte_characters() -> list[str]:
    """GPT-2's character for each byte, as its paper's code derives it."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    table: list[str] = []
    moved = 0
    for byte in range(256):
        table.append(chr(byte) if byte in kept else chr(256 + moved))
        moved += byte not in kept
    return table


def smollm_words(text: str) -> Iterator[str]:
    """SmolLM's cut: every digit alone, the text between them as GPT-2 cuts it."""
    part = ""
    for char in text:
        if _kind(char) == "N":
            yield from gpt2_words(part)
            yield char
            part = ""
        else:
            part += char
    yield from gpt2_words(part)


def gpt2_words(text: str) -> Iterator[str]:
    """GPT-2's cut: contractions; runs of letters, of numbers, of neither, with a space before.

    Of a run of white space before a word the last character is left over: it goes with the word
    if it is a space, else it stands alone.
    """
    at = 0
    while at < len(text):
        length = max((len(c) for c in _CONTRACTIONS if text.startswith(c, at)), default=0)
        if not length:
            first = at + (text[at] == " ")
            if first < len(text) and _kind(text[first]) != " ":
                length = first - at + _run(text, first)
            else:
                blank = _run(text, at)
                length = blank if at + blank == len(text) or blank == 1 else blank - 1
        yield text[at : at + length]
        at += length


def _run(text: str, start: int) -> int:
    """How many characters from `start` on are of one kind."""
    end = start
    while end < len(text) and _kind(text[end]) == _kind(text[start]):
        end += 1
    return end - start


def _kind(char: str) -> str:
    if char in _WHITE_SPACE:
        return " "
    category = unicodedata.category(char)[0]
    return category if category in "LN" else "other"


def merge_by_rank(symbols: list[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Byte-pair merging: again and again the pair of the lowest rank, the leftmost first."""
    while len(symbols) > 1:
        pairs = list(pairwise(symbols))
        rank, at = min((ranks.get(pair, len(ranks)), at) for at, pair in enumerate(pairs))
        if rank == len(ranks):
            break
        symbols = [*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :]]
    return symbols


def merge_by_score(symbols: list[str], scores: Mapping[str, float]) -> list[str]:
    """SentencePiece's merging: again and again the pair whose union scores best, leftmost first."""
    while len(symbols) > 1:
        pairs = [left + right for left, right in pairwise(symbols)]
        best, at = max((scores.get(pair, float("-inf")), -at) for at, pair in enumerate(pairs))
        if best == float("-inf"):
            break
        symbols = [*symbols[:-at], pairs[-at], *symbols[2 - at :]]
    return symbols


def reference_encoder(fields: Mapping[str, Any]) -> Callable[[str], list[int]]:
    """A byte-level encoder with SmolLM's cut, from the definition; remembers words."""
    ids = {token: token_id for token_id, token in enumerate(fields["tokenizer.ggml.tokens"])}
    merges = fields["tokenizer.ggml.merges"]
    ranks = {(m.split(" ")[0], m.split(" ")[1]): rank for rank, m in enumerate(merges)}
    characters = byte_characters()

    @cache
    def encode_word(word: str) -> list[int]:
        symbols = merge_by_rank([characters[byte] for byte in word.encode()], ranks)
        return [ids[symbol] for symbol in symbols if symbol in ids]

    return lambda text: [i for word in smollm_words(text) for i in encode_word(word)]


@cache
def byte_level_fields() -> Mapping[str, Any]:
    """A byte-level vocabulary of 256 bytes, 400 merges and every control token."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=656, initial_alphabet=byte_characters(), show_progress=False
    )
    trained.train_from_iterator(SENTENCES * 3, trainer)
    tokens, merges = _learned(trained)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [*CONTROL_TEXTS, *tokens, *SHOWN_TEXTS],
        "tokenizer.ggml.token_type": (
            [3] * len(CONTROL_TEXTS) + [1] * len(tokens) + [4] * len(SHOWN_TEXTS)
        ),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in merges],
        "tokenizer.ggml.bos_token_id": CONTROL_TEXTS.index("<s>"),
        "tokenizer.ggml.eos_token_id": CONTROL_TEXTS.index("</s>"),
    }


@cache
def sentencepiece_fields() -> Mapping[str, Any]:
    """A SentencePiece vocabulary with byte fallback; it lacks most CJK characters."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    trainer = trainers.BpeTrainer(vocab_size=300, limit_alphabet=90, show_progress=False)
    trained.train_from_iterator(SENTENCES * 3, trainer)
    pieces, merges = _learned(trained)
    by_rank = list(dict.fromkeys(left + right for left, right in merges))
    letters = [piece for piece in pieces if piece not in by_rank]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    head = ["<unk>", "<s>", "</s>", *(t for t in CONTROL_TEXTS if t not in ("<s>", "</s>"))]
    normal = [*by_rank, *letters]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*head, *byte_tokens, *normal],
        "tokenizer.ggml.token_type": [2] + [3] * (len(head) - 1) + [6] * 256 + [1] * len(normal),
        "tokenizer.ggml.scores": (
            [0.0] * (len(head) + 256) + [-float(rank) for rank in range(len(normal))]
        ),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def whole_text_encoder(fields: Mapping[str, Any]) -> Callable[[str], list[int]]:
    """How transformers encodes a rendered byte-level prompt: control tokens wherever they are."""
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    merges = [(m.split(" ")[0], m.split(" ")[1]) for m in fields["tokenizer.ggml.merges"]]
    whole = Tokenizer(models.BPE(vocab, merges))
    whole.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    added = [token for token, kind in zip(tokens, types, strict=True) if kind in (3, 4)]
    whole.add_special_tokens([AddedToken(token, normalized=False) for token in added])
    return lambda text: whole.encode(text, add_special_tokens=False).ids


def _learned(trained: Tokenizer) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens in the order of their ids, and merges in the order of their ranks."""
    model = json.loads(trained.to_str())["model"]
    merges = [(left, right) for left, right in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), merges
