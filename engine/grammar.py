"""What an answer has to look like, as masks over the vocabulary.

Owns one answer's grammar and where in it the answer stands, and the compiler of a model. Knows
how grammars are written from `grammar_source.py` only, and nothing of logits.

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
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher, LLParserLimits

from radixchat.engine.grammar_source import explain, grammar_source, refuse
from radixchat.engine.grammar_vocabulary import GrammarVocabulary, Mask, grammar_vocabulary
from radixchat.engine.tokenizer import Tokenizer

# A mask takes 20 us in the median and, where a lexer meets new states, up to 5 ms (a vocabulary of
# 49,152): a second worker is for the latter, a third would take a core from the forward pass.
MASK_WORKERS = 2
# Each keeps the states that its lexer has met, up to 22 MiB of them.
MAX_COMPILED = 8
# llguidance's default admits 250,000 states of 1 to 2 KiB per grammar.
MAX_LEXER_STATES = 50_000
# What has to come is computed at once, 20,000 bytes of it in 25 ms, while others wait for a step.
MAX_FORCED = 1 << 15


@dataclass(frozen=True, slots=True)
class _Run:
    """The tokens that have to come next, one after another; none where there is a choice.

    too_long: so many bytes have to come, and nobody waits for their tokens.
    """

    tokens: Sequence[int]
    too_long: int = 0


class _Place:
    """Where in its grammar an answer stands.

    What has to come next is computed once, where it begins, and kept until it has come: llguidance
    computes it again for every mask, and 20,000 bytes of it take 50 ms. So the masks depend on the
    tokens that were accepted and not on where a draft began.
    """

    __slots__ = ("_at", "_matcher", "_run", "_vocabulary")

    def __init__(self, matcher: LLMatcher, vocabulary: GrammarVocabulary) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._run: _Run | None = None  # not computed yet
        self._at = 0  # so many of its tokens have come

    def copy(self) -> _Place:
        """An independent one at the same place."""
        copy = _Place(self._matcher.deep_copy(), self._vocabulary)
        copy._run, copy._at = self._run, self._at
        return copy

    @property
    def run(self) -> _Run:
        """What has to come, from where it began."""
        if self._run is None:
            length = len(self._matcher.compute_ff_bytes())
            if length > MAX_FORCED:
                self._run = _Run((), too_long=length)
            elif self._matcher.is_error():
                self._run = _Run(())
            else:
                tokens = self._matcher.compute_ff_tokens()
                self._run = _Run(tokens[: self._vocabulary.num_texts(tokens)])
        return self._run

    def learn(self, run: _Run) -> None:
        """Another one at the same place has computed what has to come."""
        if self._run is None:
            self._run = run

    def forced(self, limit: int) -> list[int]:
        """The first tokens of what has to come."""
        return list(self.run.tokens[self._at : self._at + limit])

    def mask(self) -> Mask:
        """What may follow now; computes it, and asks the matcher only then whether it is at an end.

        A matcher that can go nowhere allows its own end token, complete or not: hence
        `is_accepting`.
        """
        if self.run.too_long:
            return np.zeros_like(self._vocabulary.texts)
        if forced := self.forced(1):
            return self._only(forced[0])
        words = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
        mask = words[: len(self._vocabulary.texts)] & self._vocabulary.texts
        return mask | self._vocabulary.stops if self._matcher.is_accepting() else mask

    def known_masks(self, draft: Sequence[int]) -> list[Mask] | None:
        """The masks along a draft, if all of them lie within what is known to have to come."""
        if self._run is None:
            return None
        tokens = self.forced(len(draft) + 1)
        pairs = zip(draft, tokens, strict=False)
        come = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if come == len(tokens):
            return None
        masks = [self._only(token) for token in tokens[: come + 1]]
        return masks + masks[-1:] * (len(draft) - come)

    def accept(self, token: int) -> bool:
        """Go on with a token; False if that was not possible: nothing may follow then."""
        accepted = self._matcher.consume_token(token)
        expected = self._run is not None and self.forced(1) == [token]
        self._at += 1
        if not (accepted and expected and self.forced(1)):
            self._run, self._at = None, 0
        return accepted

    def valid_prefix(self, tokens: list[int]) -> int:
        """How many of these tokens, which stand for text, may come next."""
        return self._matcher.validate_tokens(tokens)

    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        return self._matcher.is_accepting()

    def why(self) -> str:
        """The reason why nothing may follow."""
        if self.run.too_long:
            return f"{self.run.too_long} given bytes would come next, more than {MAX_FORCED}"
        return explain(self._matcher.get_error())

    def _only(self, token: int) -> Mask:
        mask = np.zeros_like(self._vocabulary.texts)
        mask[token // 32] = 1 << (token % 32)
        return mask


class Grammar:
    """One answer's grammar and where in it the answer stands.

    finished: the answer is complete and has ended.
    """

    __slots__ = ("_pending", "_place", "_vocabulary", "_workers", "finished")

    def __init__(
        self, place: _Place, vocabulary: GrammarVocabulary, workers: ThreadPoolExecutor
    ) -> None:
        self._place = place
        self._vocabulary = vocabulary
        self._workers = workers
        self._pending: Callable[[], tuple[list[Mask], _Run | None]] | None = None
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
        mask is repeated.
        """
        assert self._pending is None, "masks were begun and not asked for"
        if (known := self._place.known_masks(draft)) is not None:
            self._pending = lambda: (known, None)
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
        masks, run = self._pending()
        self._pending = None
        if run is not None:
            self._place.learn(run)
        return masks

    def accept(self, token: int) -> bool:
        """The answer goes on with this token, which the mask allows; whether it is a stop token."""
        assert not self.finished, "an answer goes on after its end"
        if token in self._vocabulary.stop_ids:
            assert self._place.is_accepting(), f"stop token {token} before the end"
            self.finished = True
            return True
        # Not asserted: it is false too where the grammar gets too complex. No mask allows a token
        # then, and `dead_end` tells.
        self._place.accept(token)
        if not self._vocabulary.stop_ids and self._place.is_accepting():
            self.finished = not self._place.copy().mask().any()
        return False

    def dead_end(self) -> str | None:
        """Why nothing may follow, neither text nor the end; None where something may."""
        place = self._place.copy()
        return None if self.finished or place.mask().any() else place.why()

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
        self._compiled = lru_cache(MAX_COMPILED)(partial(_compile, self._vocabulary))

    def compile(self, kind: str, value: str) -> Grammar:
        """The grammar of an answer that has not begun. Equal ones are compiled once.

        kind, value: one of those that `grammar_source` knows, and what a client wrote. Takes a
        millisecond, or a second for thousands of properties. Raises InvalidRequest, which says
        what is wrong.
        """
        place = _Place(self._compiled(kind, value).deep_copy(), self._vocabulary)
        return Grammar(place, self._vocabulary, self._workers)

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
    first = _Place(matcher.deep_copy(), vocabulary)
    if not first.mask().any() and not first.is_accepting():
        refuse(kind, first.why())
    return matcher


def _compute_masks(
    place: _Place, draft: Sequence[int], vocabulary: GrammarVocabulary
) -> tuple[list[Mask], _Run]:
    """The masks from that place on along the draft, and the run there."""
    masks, run = [place.mask()], place.run
    for token in draft[: vocabulary.num_texts(draft)]:
        if not masks[-1][token // 32] >> (token % 32) & 1 or not place.accept(token):
            break
        masks.append(place.mask())
    return masks + masks[-1:] * (1 + len(draft) - len(masks)), run
