"""What an answer has to look like, as masks over the vocabulary.

Owns one answer's grammar and where in it the answer stands, and the compiler of a model. Knows
how grammars are written from `grammar_source.py` only, and nothing of logits.

    forward pass                      worker
    begin_masks(draft) ── a copy ───► mask, token, mask, token, ... mask
    masks()            ◄───────────── 1 + len(draft) masks

A worker gets a copy of the state (1.4 us; copies share what they learn of the lexer), so whatever
a draft does to it, the answer's own state moves by accepted tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial

import numpy as np
from llguidance import LLMatcher, LLParserLimits

from radixchat.engine.grammar_source import explain, grammar_source, refuse
from radixchat.engine.grammar_vocabulary import GrammarVocabulary, Mask, grammar_vocabulary
from radixchat.engine.tokenizer import Tokenizer

# A mask takes 20 us in the median and, where a lexer meets new states, up to 5 ms (a vocabulary of
# 49,152): a second worker is for the latter, a third would take a core from the forward pass.
MASK_WORKERS = 2
MAX_COMPILED = 32
# llguidance's default admits 250,000 states of 1 to 2 KiB per grammar.
MAX_LEXER_STATES = 50_000
# llguidance goes over what has to come for every mask: 100,000 bytes of it take 90 ms.
MAX_FORCED = 1 << 13


class Grammar:
    """One answer's grammar and where in it the answer stands.

    finished: the answer is complete and has ended.
    """

    __slots__ = ("_matcher", "_pending", "_vocabulary", "_workers", "finished")

    def __init__(
        self, matcher: LLMatcher, vocabulary: GrammarVocabulary, workers: ThreadPoolExecutor
    ) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._workers = workers
        self._pending: Future[list[Mask]] | None = None
        self.finished = False

    def forced(self, limit: int) -> list[int]:
        """The tokens that come next whatever the model thinks, `limit` at most.

        Each is the only one that its mask allows. A stop token is not among them.
        """
        tokens = self._matcher.compute_ff_tokens()[:limit]
        return tokens[: self._vocabulary.num_texts(tokens)]

    def valid_prefix(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` may come next, one after another, before a stop token."""
        texts = list(tokens[: self._vocabulary.num_texts(tokens)])
        return self._matcher.validate_tokens(texts)

    def begin_masks(self, draft: Sequence[int]) -> None:
        """Start to compute what may follow now, and after each token of the draft.

        What follows a token that the mask before it does not allow cannot be reached: there that
        mask is repeated.
        """
        assert self._pending is None, "masks were begun and not asked for"
        self._pending = self._workers.submit(
            _compute_masks, self._matcher.deep_copy(), tuple(draft), self._vocabulary
        )

    def masks(self) -> list[Mask]:
        """The masks that were begun, 1 + len(draft); waits for them.

        One bit per row of the model: bit i % 32 of word i // 32. No bit is set where nothing may
        follow, see `dead_end`.
        """
        assert self._pending is not None, "no masks were begun"
        masks = self._pending.result()
        self._pending = None
        return masks

    def accept(self, token: int) -> bool:
        """The answer goes on with this token, which the mask allows; whether it is a stop token."""
        assert not self.finished, "an answer goes on after its end"
        if token in self._vocabulary.stop_ids:
            assert self._matcher.is_accepting(), f"stop token {token} before the end"
            self.finished = True
            return True
        # Not asserted: it is false too where the grammar gets too complex. No mask allows a token
        # then, and `dead_end` tells.
        self._matcher.consume_token(token)
        if not self._vocabulary.stop_ids and self._matcher.is_accepting():
            self.finished = not _mask(self._matcher.deep_copy(), self._vocabulary).any()
        return False

    def dead_end(self) -> str | None:
        """Why nothing may follow, neither text nor the end; None where something may."""
        matcher = self._matcher.deep_copy()
        if self.finished or _mask(matcher, self._vocabulary).any():
            return None
        return explain(matcher.get_error())

    def copy(self) -> Grammar:
        """An independent one in the same state."""
        copy = Grammar(self._matcher.deep_copy(), self._vocabulary, self._workers)
        copy.finished = self.finished
        return copy


class GrammarCompiler:
    """Makes the grammars of one model.

    It takes 0.3 s to make and 15 MiB for 49,152 tokens, so it is made when first needed.
    vocab_size: the model's rows. A row beyond the tokenizer's is never allowed. `compile` may be
    called by any thread, one after the other or at once. `close` ends the workers; the grammars
    have no masks after that.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._vocabulary = grammar_vocabulary(tokenizer, vocab_size)
        self._workers = ThreadPoolExecutor(MASK_WORKERS, thread_name_prefix="grammar-masks")
        self._compiled = lru_cache(MAX_COMPILED)(partial(_compile, self._vocabulary))

    def compile(self, kind: str, value: str) -> Grammar:
        """The grammar of an answer that has not begun. Equal ones are compiled once.

        kind, value: those of `server.protocol.ResponseFormat`. Takes a millisecond, or a second
        for thousands of properties. Raises InvalidRequest, which says what is wrong.
        """
        matcher = self._compiled(kind, value)
        return Grammar(matcher.deep_copy(), self._vocabulary, self._workers)

    def close(self) -> None:
        """End the workers, after what they were asked for."""
        self._workers.shutdown()


def _compile(vocabulary: GrammarVocabulary, kind: str, value: str) -> LLMatcher:
    """A matcher that nothing was fed to; it allows something."""
    source = grammar_source(kind, value, skips_space=vocabulary.skips_space)
    limits = LLParserLimits(max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
    matcher = LLMatcher(vocabulary.backend, source, log_level=0, limits=limits)
    if matcher.is_error():
        refuse(kind, explain(matcher.get_error()))
    first = matcher.deep_copy()
    if not _mask(first, vocabulary).any() and not first.is_accepting():
        refuse(kind, explain(first.get_error()))
    if (length := len(first.compute_ff_bytes())) > MAX_FORCED:
        refuse(
            kind, f"the answer begins with {length} bytes that are given, more than {MAX_FORCED}"
        )
    return matcher


def _compute_masks(
    matcher: LLMatcher, draft: Sequence[int], vocabulary: GrammarVocabulary
) -> list[Mask]:
    masks = [_mask(matcher, vocabulary)]
    for token in draft[: vocabulary.num_texts(draft)]:
        if not masks[-1][token // 32] >> (token % 32) & 1 or not matcher.consume_token(token):
            break
        masks.append(_mask(matcher, vocabulary))
    return masks + masks[-1:] * (1 + len(draft) - len(masks))


def _mask(matcher: LLMatcher, vocabulary: GrammarVocabulary) -> Mask:
    """What may follow now; computes it, and asks the matcher only then whether it is at an end.

    A matcher that can go nowhere allows its own end token, complete or not: hence `is_accepting`.
    """
    words = np.frombuffer(matcher.compute_bitmask(), np.uint32)
    mask = words[: len(vocabulary.texts)] & vocabulary.texts
    return mask | vocabulary.stops if matcher.is_accepting() else mask
