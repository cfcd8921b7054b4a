"""What one request's parameters make of its tokens so far: `TokenHistory`.

Follows the request's tokens, one numpy operation a token for each feature that is on, and turns
them into the edits of the next token's logits. A pure function of tokens and parameters: one
that followed an answer token by token equals one made of the whole. Knows no tensor and no text.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from radixchat.engine.bad_words import BadWords
from radixchat.engine.logit_edits import NO_IDS, NOTHING, Amounts, LogitEdits
from radixchat.engine.repeat_lengths import RepeatLengths
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.token_counts import TokenCounts

MAX_PENALTY = 1e30  # finite in fp32: a token that DRY makes hopeless is not one that is excluded


class TokenHistory:
    """The memory of the penalties, DRY and bad words of one request."""

    def __init__(
        self,
        params: SamplingParams,
        stop_ids: frozenset[int],
        tokens: Sequence[int],
        num_prompt: int,
    ) -> None:
        self._params = params
        self._size = len(tokens)
        ids = np.array([token for token, _ in params.logit_bias], dtype=np.int64)
        amounts = np.array([bias for _, bias in params.logit_bias], dtype=np.float32)
        self._bias = Amounts(ids, amounts)
        self._bad_words = BadWords(params.bad_words, tokens) if params.bad_words else None
        self._said = TokenCounts(tokens) if params.repetition_penalty != 1 else None
        counts_answer = params.presence_penalty or params.frequency_penalty
        self._answered = TokenCounts(tokens[num_prompt:]) if counts_answer else None
        breakers = params.dry_breakers | stop_ids
        self._repeats = RepeatLengths(tokens, breakers) if params.dry_multiplier else None

    def follow(self, tokens: Sequence[int]) -> None:
        """Take in what the request's tokens, append-only, have more than at the last look."""
        assert len(tokens) >= self._size, "a request's tokens are append-only"
        for token in tokens[self._size :]:
            self.push(token)

    def push(self, token: int) -> None:
        """One more token of the answer."""
        self._size += 1
        for part in (self._bad_words, self._said, self._answered, self._repeats):
            if part is not None:
                part.push(token)

    def copy(self) -> TokenHistory:
        """An independent one of the same tokens."""
        twin = copy.copy(self)
        twin._bad_words = self._bad_words and self._bad_words.copy()
        twin._said = self._said and self._said.copy()
        twin._answered = self._answered and self._answered.copy()
        twin._repeats = self._repeats and self._repeats.copy()
        return twin

    def edits(self, mask: NDArray[np.uint32] | None, banned: Collection[int]) -> LogitEdits:
        """Of the next token's logits; `banned` ids are so besides what the parameters ban."""
        words = self._bad_words.banned() if self._bad_words else []
        return LogitEdits(
            mask=mask,
            banned=np.array([*banned, *words], dtype=np.int64),
            bias=self._bias,
            repeated=self._said.ids if self._said else NO_IDS,
            repetition_penalty=self._params.repetition_penalty,
            counted=self._counted(self._answered) if self._answered else NOTHING,
            dry=self._dry(self._repeats) if self._repeats else NOTHING,
        )

    def _counted(self, answered: TokenCounts) -> Amounts:
        params = self._params
        loss = params.presence_penalty + params.frequency_penalty * answered.counts
        return Amounts(answered.ids, (-loss).astype(np.float32))

    def _dry(self, repeats: RepeatLengths) -> Amounts:
        params = self._params
        ids, lengths = repeats.prolonging(params.dry_allowed_length)
        over = (lengths - params.dry_allowed_length).astype(np.float64)
        loss = np.minimum(params.dry_multiplier * params.dry_base**over, MAX_PENALTY)
        return Amounts(ids, (-loss).astype(np.float32))
