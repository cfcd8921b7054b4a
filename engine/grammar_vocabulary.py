"""A model's vocabulary as grammars see it: which bytes each token stands for, and which ones end.

Owns the translation of a `Tokenizer` to llguidance. Knows no grammar and no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llguidance import LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from radixchat.engine.tokenizer import Tokenizer

Mask = NDArray[np.uint32]

# No text begins with it, and no vocabulary merges it with what follows.
_MARK = "\x02"
# How llguidance calls the end of an answer. It needs one token with a name, or panics where a
# grammar names another.
_END = b"<|end_of_answer|>"


@dataclass(frozen=True, slots=True)
class GrammarVocabulary:
    """What a grammar needs to know of the model's tokens.

    backend: llguidance's view; it has one token more, with which it says that an answer is
    complete, so that a model may have any number of stop tokens. texts, stops: masks, one bit per
    row of the model (bit i % 32 of word i // 32), of the tokens that stand for text, and of those
    that end an answer. is_text: the first one, a byte per token. skips_space: the first space of
    an answer is not shown, so a grammar begins after it.
    """

    backend: LLTokenizer
    texts: Mask
    stops: Mask
    is_text: bytes
    stop_ids: frozenset[int]
    skips_space: bool

    def num_texts(self, tokens: Sequence[int]) -> int:
        """How many tokens come before the first one that stands for no text."""
        for index, token in enumerate(tokens):
            if token >= len(self.is_text) or not self.is_text[token]:
                return index
        return len(tokens)


def grammar_vocabulary(tokenizer: Tokenizer, vocab_size: int) -> GrammarVocabulary:
    """The vocabulary of a model with `vocab_size` rows; rows beyond the tokenizer's are no text.

    A control token stands for no text here, also where an answer would show one (<tool_call>):
    what looks like it in a grammar is its characters.
    """
    assert vocab_size >= tokenizer.vocab_size, f"{tokenizer.vocab_size} tokens, {vocab_size} rows"
    controls = set(tokenizer.control_tokens.values())
    shown = [
        b"" if token_id in controls else data for token_id, data in enumerate(tokenizer.token_bytes)
    ]
    shown += [b""] * (vocab_size - len(shown))
    stop_ids = tokenizer.stop_ids
    is_text = bytes(bool(data) and token_id not in stop_ids for token_id, data in enumerate(shown))
    return GrammarVocabulary(
        backend=LLTokenizer(TokenizerWrapper(_Words(tokenizer, [*shown, _END]))),
        texts=_mask(np.flatnonzero(np.frombuffer(is_text, np.uint8)), vocab_size),
        stops=_mask(np.array(sorted(stop_ids), np.int64), vocab_size),
        is_text=is_text,
        stop_ids=stop_ids,
        skips_space=tokenizer.skips_space,
    )


def _mask(ids: NDArray[np.int64], vocab_size: int) -> Mask:
    bits = np.zeros(-(-vocab_size // 32) * 32, np.uint8)
    bits[ids] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)


class _Words:
    """What llguidance asks of a tokenizer: the tokens, and how a text is usually written in them.

    It asks for the latter to propose, of all ways to write a text that has to come, the model's.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.eos_token_id = len(tokens) - 1
        self.special_token_ids = [self.eos_token_id]
        self._encode = tokenizer.encode
        self._mark_length = len(tokenizer.encode(_MARK))
        self._byte_ids = {data: token_id for token_id, data in enumerate(tokens) if len(data) == 1}

    def __call__(self, text: str) -> list[int]:
        """The usual tokens of a text that goes on after another; their bytes are the text's."""
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")  # llguidance tries at first whether bytes do
        ids = self._encode(_MARK + text)[self._mark_length :]
        if b"".join([self.tokens[token_id] for token_id in ids]) == text.encode():
            return ids
        # The tokenizer normalises what it encodes (é as one character), a grammar does not.
        return [self._byte_ids[bytes([byte])] for byte in text.encode()]
