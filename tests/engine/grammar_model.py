"""A tokenizer with its grammar compiler, and random walks through what a grammar allows."""

from __future__ import annotations

import random

import numpy as np

from radixchat.engine.grammar import Grammar, GrammarCompiler
from radixchat.engine.tokenizer import Tokenizer


class Model:
    """A tokenizer and its compiler."""

    def __init__(self, tokenizer: Tokenizer, rows: int) -> None:
        self.tokenizer = tokenizer
        self.compiler = GrammarCompiler(tokenizer, rows)
        self.rows = rows

    def allowed(self, grammar: Grammar) -> list[int]:
        """The ids that may follow now."""
        grammar.begin_masks([])
        (mask,) = grammar.masks()
        return bits(mask)

    def walk(self, kind: str, value: str, seed: int) -> list[int]:
        """A random answer, its stop token included."""
        chance, grammar = random.Random(seed), self.compiler.compile(kind, value)
        tokens: list[int] = []
        while not grammar.finished:
            tokens.append(chance.choice(self.allowed(grammar)))
            grammar.accept(tokens[-1])
            assert len(tokens) < 500, "the answer does not end"
        return tokens


def bits(mask: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> list[int]:
    return [i for i in range(32 * len(mask)) if int(mask[i // 32]) >> (i % 32) & 1]
