"""What an answer has to look like, as masks over the vocabulary.

Owns one answer's grammar, the workers, and the compiler of a model. Knows where an answer stands
from `grammar_place.py`, how grammars are written from `grammar_source.py`, and nothing of logits.

    forward pass                      worker
    begin_masks(draft) ── a copy ───► mask, token, mask, token, ... mask
    masks()            ◄───────────── 1 + len(draft) masks

A worker gets a copy of the state (1.4 us; copies share what they learn of the lexer), so whatever
a draft does to it, the answer's own state moves by accepted tokens only. While there is no choice
no worker is asked: the tokens that have to come are known from where they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

from radixchat.engine.grammar_place import CompiledGrammar, Place
from radixchat.engine.grammar_source import explain
from radixchat.engine.grammar_vocabulary import GrammarVocabulary, Mask, grammar_vocabulary
from radixchat.engine.tokenizer import Tokenizer

# A mask takes 20 us in the median and, where a lexer meets new states, up to 5 ms (a vocabulary of
# 49,152): a second worker is for the latter, a third would take a core from the forward pass.
MASK_WORKERS = 2
# Each keeps the states that its lexer has met, up to 22 MiB of them.
MAX_COMPILED = 8


class Grammar:
    """One answer's grammar and where in it the answer stands.

    finished: the answer is complete and has ended.
    """

    __slots__ = ("_pending", "_place", "_vocabulary", "_workers", "finished")

    def __init__(
        self, place: Place, vocabulary: GrammarVocabulary, workers: ThreadPoolExecutor
    ) -> None:
        self._place = place
        self._vocabulary = vocabulary
        self._workers = workers
        self._pending: Callable[[], tuple[list[Mask], Place]] | None = None
        self.finished = False

    def forced(self, limit: int) -> list[int]:
        """The tokens that come next whatever the model thinks, `limit` at most.

        Each is the only one that its mask allows. A stop token is not among them.
        """
        return self._place.forced(limit)

    def valid_prefix(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` may come next, one after another, before a stop token."""
        return self._place.valid_prefix(list(tokens[: self._vocabulary.num_texts(tokens)]))

    def begin_masks(self, draft: Sequence[int]) -> None:
        """Start to compute what may follow now, and after each token of the draft.

        What follows a token that the mask before it does not allow cannot be reached: there that
        mask is repeated. What follows one that the grammar cannot go on from has no bit.
        """
        assert self._pending is None, "masks were begun and not asked for"
        if (known := self._place.known_masks(draft)) is not None:
            self._pending = lambda: (known, self._place)
        else:
            place = self._place.copy()
            self._pending = self._workers.submit(
                _compute_masks, place, tuple(draft), self._vocabulary
            ).result

    def masks(self) -> list[Mask]:
        """The masks that were begun, 1 + len(draft); waits for them.

        One bit per row of the model: bit i % 32 of word i // 32. No bit is set where nothing may
        follow, see `dead_end`.
        """
        assert self._pending is not None, "no masks were begun"
        masks, self._place = self._pending()
        self._pending = None
        return masks

    def accept(self, token: int) -> bool:
        """The answer goes on with this token, which the mask allows; whether it is a stop token."""
        assert not self.finished, "an answer goes on after its end"
        if token in self._vocabulary.stop_ids:
            assert self._place.is_accepting(), f"stop token {token} before the end"
            self.finished = True
            return True
        # It may fail where the grammar gets too complex: no mask allows a token then, and
        # `dead_end` tells.
        self._place.accept(token)
        if not self._vocabulary.stop_ids and self._place.is_accepting():
            self.finished = not self._place.copy().mask().any()
        return False

    def can_begin_with(self, tokens: Sequence[int]) -> bool:
        """Whether an answer that begins so may have these tokens next, and goes on after them."""
        place = self.copy()
        for token in tokens:
            if place.finished or token in self._vocabulary.stop_ids:
                return False
            place.accept(token)
        return not place.finished and place.dead_end() is None

    def dead_end(self) -> str | None:
        """Why nothing may follow, neither text nor the end; None where something may."""
        if self.finished:
            return None
        (mask,), self._place = _compute_masks(self._place.copy(), (), self._vocabulary)
        return None if mask.any() else self._place.why() or explain("")

    def copy(self) -> Grammar:
        """An independent one in the same state."""
        copy = Grammar(self._place.copy(), self._vocabulary, self._workers)
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
        self._compiled = lru_cache(MAX_COMPILED)(partial(CompiledGrammar, self._vocabulary))

    def compile(self, kind: str, value: str) -> Grammar:
        """The grammar of an answer that has not begun. Equal ones are compiled once.

        kind, value: one of those that `grammar_source` knows, and what a client wrote. Takes a
        millisecond, or a second for thousands of properties. Raises InvalidRequest, which says
        what is wrong.
        """
        place = Place(self._compiled(kind, value), self._vocabulary)
        return Grammar(place, self._vocabulary, self._workers)

    def close(self) -> None:
        """End the workers, after what they were asked for."""
        self._workers.shutdown()


def _compute_masks(
    place: Place, draft: Sequence[int], vocabulary: GrammarVocabulary
) -> tuple[list[Mask], Place]:
    """The masks from that place on along the draft, and that place with what was learnt there."""
    masks, start = [place.mask()], place.copy()
    for token in draft[: vocabulary.num_texts(draft)]:
        if not masks[-1][token // 32] >> (token % 32) & 1:
            break
        place.accept(token)
        masks.append(place.mask())
    start.spent(place)
    if place.is_used_up and (renewed := start.renewed()) is not None:
        return _compute_masks(renewed, draft, vocabulary)
    return masks + masks[-1:] * (1 + len(draft) - len(masks)), start
