"""Where in its grammar an answer stands, and the compiled grammar that it stands in.

Owns llguidance's matchers, their limits in size and in time, and what happens where one is met.
Knows neither workers nor requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from time import thread_time

import numpy as np
from llguidance import LLMatcher, LLParserLimits

from radixchat.engine.grammar_source import explain, grammar_source, refuse
from radixchat.engine.grammar_vocabulary import GrammarVocabulary, Mask

# llguidance's default admits 250,000 states of 1 to 2 KiB per grammar.
MAX_LEXER_STATES = 50_000
# What has to come is computed at once, 20,000 bytes of it in 25 ms, while others wait for a step.
MAX_FORCED = 1 << 15
# Other answers wait for a mask. An answer has so many seconds for all its slow ones together, of
# the thread's own time: a machine that is busy with something else makes no grammar slow.
SLOW_SECONDS = 0.1
MAX_SLOW_SECONDS = 0.5
# A grammar that is as slow as this where an answer begins is refused.
MAX_FIRST_SECONDS = 0.25
TOO_SLOW = "its masks take too long"
# So many tokens are tried there, in each of two places, for a limit that the next one would meet.
TRIED_TOKENS = 4


class CompiledGrammar:
    """A grammar that was compiled, for all its answers.

    What its lexer meets in one answer all others have too, and its limits are for all of them
    together: where one answer meets such a limit, the next one gets a new matcher.
    """

    __slots__ = ("_make", "_matcher")

    def __init__(self, vocabulary: GrammarVocabulary, kind: str, value: str) -> None:
        self._make = partial(_compile, vocabulary, kind, value)
        self._matcher: LLMatcher | None = self._make()
        _try_out(kind, Place(self, vocabulary), vocabulary)

    def matcher(self) -> LLMatcher:
        """One that nothing is fed to, for copies."""
        # Two threads at once may make two: one is kept.
        if (matcher := self._matcher) is None:
            matcher = self._matcher = self._make()
        return matcher

    def forget(self, matcher: LLMatcher) -> None:
        """This one is used up."""
        if self._matcher is matcher:
            self._matcher = None


class Place:
    """Where in its grammar an answer stands.

    What has to come next is computed once, where it begins, and kept until it has come: llguidance
    computes it again for every mask, and 20,000 bytes of it take 50 ms. So the masks depend on the
    tokens that were accepted and not on where a draft began.

    is_used_up: the matcher has met a limit.
    """

    __slots__ = (
        "_at",
        "_compiled",
        "_failure",
        "_is_renewed",
        "_matcher",
        "_origin",
        "_run",
        "_seconds",
        "_tokens",
        "_vocabulary",
        "is_used_up",
    )

    def __init__(self, compiled: CompiledGrammar, vocabulary: GrammarVocabulary) -> None:
        self._compiled = compiled
        self._origin = compiled.matcher()
        self._matcher = self._origin.deep_copy()
        self._vocabulary = vocabulary
        self._tokens: list[int] = []  # all that were accepted
        self._run: Sequence[int] | None = None  # the tokens that have to come; not computed yet
        self._at = 0  # so many of them have come
        self._failure: str | None = None
        self._seconds = 0.0  # in what was slow
        self._is_renewed = False
        self.is_used_up = False

    def copy(self) -> Place:
        """An independent one at the same place."""
        copy = object.__new__(Place)
        for name in Place.__slots__:
            setattr(copy, name, getattr(self, name))
        copy._matcher = self._matcher.deep_copy()
        copy._tokens = self._tokens.copy()
        return copy

    def renewed(self) -> Place | None:
        """The same place in a new matcher, as this one's met a limit; None for the second time."""
        self._compiled.forget(self._origin)
        if self._is_renewed:
            return None
        place = Place(self._compiled, self._vocabulary)
        place._tokens, place._seconds, place._is_renewed = self._tokens.copy(), self._seconds, True
        if self._run and self._at < len(self._run):
            place._run, place._at = self._run, self._at
        if not place._matcher.consume_tokens(place._tokens):
            place._fail(place._matcher.get_error())
        return place

    def spent(self, follower: Place) -> None:
        """Another one, which came from here, has spent time."""
        self._seconds = follower._seconds

    def why(self, max_seconds: float | None = None) -> str | None:
        """The reason why nothing may follow; None where none has been met."""
        if self._seconds > (MAX_SLOW_SECONDS if max_seconds is None else max_seconds):
            return TOO_SLOW
        return self._failure

    def _fail(self, error: str) -> None:
        if self._failure is None:
            self._failure = explain(error)
            self.is_used_up = not error.startswith("NoExtension")

    def _took(self, start: float) -> None:
        if (seconds := thread_time() - start) > SLOW_SECONDS:
            self._seconds += seconds

    def _compute_run(self) -> Sequence[int]:
        """What has to come from here; none where there is a choice, or what fails on its way."""
        length = len(self._matcher.compute_ff_bytes())
        if length > MAX_FORCED:
            self._failure = f"{length} given bytes would come next, more than {MAX_FORCED}"
        elif self._matcher.is_error():
            self._fail(self._matcher.get_error())
        else:
            tokens = self._matcher.compute_ff_tokens()
            tokens = tokens[: self._vocabulary.num_texts(tokens)]
            follower = self._matcher.deep_copy()
            # The bytes were found without the parser's limits; 20,000 tokens take 2 ms.
            if follower.consume_tokens(tokens):
                return tokens
            self._fail(follower.get_error())
        return ()

    def forced(self, limit: int) -> list[int]:
        """The first tokens of what has to come."""
        if self._run is None and self.why() is None:
            start = thread_time()
            self._run = self._compute_run()
            self._took(start)
        if self._run is None or self.why() is not None:
            return []
        return list(self._run[self._at : self._at + limit])

    def mask(self) -> Mask:
        """What may follow now; computes it, and asks the matcher only then whether it is at an end.

        A matcher that can go nowhere allows its own end token, complete or not: hence
        `is_accepting`.
        """
        forced = self.forced(1)
        if forced:
            return self._only(forced[0])
        if self.why() is not None:
            return np.zeros_like(self._vocabulary.texts)
        start = thread_time()
        words = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
        self._took(start)
        if self._matcher.is_error():
            self._fail(self._matcher.get_error())
            return np.zeros_like(self._vocabulary.texts)
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

    def accept(self, token: int) -> None:
        """Go on with a token; where that is not possible nothing may follow, and `why` tells."""
        expected = self._run is not None and self.forced(1) == [token]
        start = thread_time()
        accepted = self._matcher.consume_token(token)
        self._took(start)
        self._tokens.append(token)
        self._at += 1
        if not accepted:
            self._fail(self._matcher.get_error())
        if not (accepted and expected and self.forced(1)):
            self._run, self._at = None, 0

    def valid_prefix(self, tokens: list[int]) -> int:
        """How many of these tokens, which stand for text, may come next."""
        if self.why() is not None:
            return 0
        start = thread_time()
        length = self._matcher.validate_tokens(tokens)
        self._took(start)
        return length

    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        return self._matcher.is_accepting()

    def _only(self, token: int) -> Mask:
        mask = np.zeros_like(self._vocabulary.texts)
        mask[token // 32] = 1 << (token % 32)
        return mask


def _compile(vocabulary: GrammarVocabulary, kind: str, value: str) -> LLMatcher:
    """A matcher that nothing was fed to."""
    source = grammar_source(kind, value, skips_space=vocabulary.skips_space)
    limits = LLParserLimits(max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
    matcher = LLMatcher(vocabulary.backend, source, log_level=0, limits=limits)
    if matcher.is_error():
        refuse(kind, explain(matcher.get_error()))
    return matcher


def _try_out(kind: str, place: Place, vocabulary: GrammarVocabulary) -> None:
    """Refuse a grammar that is at its end, too slow, or too much for llguidance where it begins."""
    for step in range(2):
        for token in place.forced(MAX_FORCED):
            place.accept(token)
        mask = place.mask()
        if not step and not mask.any() and not place.is_accepting():
            refuse(kind, place.why() or explain(""))
        bits = np.unpackbits((mask & vocabulary.texts).view(np.uint8), bitorder="little")
        tokens = np.flatnonzero(bits)
        followers = [place]
        for token in tokens[:: max(1, len(tokens) // TRIED_TOKENS)][:TRIED_TOKENS].tolist():
            followers.append(place.copy())
            followers[-1].accept(token)
            followers[-1].mask()
        for follower in followers:
            reason = follower.why(MAX_FIRST_SECONDS)
            if reason is not None and (follower.is_used_up or reason == TOO_SLOW):
                refuse(kind, reason)
        place = followers[-1]
