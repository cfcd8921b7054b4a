"""Guesses the next tokens from what the conversation has said before.

Owns where in an older text the answer seems to be: in a branch that was left, or in its own tokens.
Knows token ids only; no model and no probability. A wrong guess costs a little time, never a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.draft_length import DraftLength
from radixchat.engine.ngram_index import SIZE, NgramIndex

# A match is looked at so far back, to tell how sure it is.
MAX_MATCH = 8
# Which kind of guess follows a match of 0, 1, 2, … tokens, and how many of each kind are expected
# to be right before any was checked. Seen when texts were repeated with changes, 135M parameters:
# .55, .53, .82 and .97.
KINDS = (0, 1, 1, 2, 2, 2, 2, 2, 3)
EXPECTED = (0.4, 0.4, 0.7, 0.9)
# Where the answer parts with a text, it is looked for in so many of the text's next tokens, and for
# so many of its own.
WINDOW = 32
PATIENCE = 8


class PromptLookup:
    """Drafts for one answer.

    The answer is followed through a text: as long as both say the same, what comes next there is
    the draft. Where they part, it is looked for a little further on, so that a changed word costs
    one wrong guess. Else its last tokens are looked for in the branches, where the earliest
    occurrence counts, then in its own prompt and output, where the latest does.
    """

    def __init__(self, branches: Sequence[Sequence[int]] = ()) -> None:
        """`branches`: what was said before instead of this, the likeliest first.

        Old answers, or old paths as a whole: what one shares with the new prompt is left out. One
        that begins with the answer itself is proposed from its first token on.
        """
        self.branches = tuple(branches)
        self._texts: list[Sequence[int]] = []  # the branches, then the answer's own tokens
        self._indexes: list[NgramIndex] = []  # of each text
        self._num_read = 0  # of its own tokens
        self._text = 0  # the one that is followed, while there is a place
        self._place: int | None = None  # in it, of what seems to come next
        self._matched = 0  # tokens before the place that the answer has too, at most MAX_MATCH
        self._parted: tuple[int, int] | None = None  # the text and place that it did not go on with
        self._num_since = 0  # tokens since then
        self._lengths = tuple(DraftLength(expected) for expected in EXPECTED)
        self._drafted: DraftLength | None = None  # what chose the length of the last draft

    def copy(self) -> PromptLookup:
        """One for another answer to the same prompt; it begins anew."""
        return PromptLookup(self.branches)

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that may follow `tokens`: those of the last call and newer ones.

        Takes 2 µs where nothing matches, and 1 ms to index 8,000 tokens first.
        """
        if self._num_read == 0:
            self._begin(tokens)
        elif len(tokens) > self._num_read:
            self._read(tokens)
        self._drafted = None
        if self._place is None or limit < 1:
            return []
        length = self._lengths[KINDS[self._matched]]
        draft = self._next(min(limit, length.next()))
        if draft:
            self._drafted = length
        return draft

    def report(self, proposed: int, accepted: int) -> None:
        """Of the last draft so many tokens were tried, and the first `accepted` of them right.

        Fewer may be tried than were proposed; if none was, nothing is learned.
        """
        if self._drafted is not None and proposed > 0:
            self._drafted.report(proposed, accepted)
            self._drafted = None

    def _begin(self, tokens: Sequence[int]) -> None:
        """Index the branches and the prompt, and look for the prompt's end in them."""
        parts = [branch[common_prefix(branch, tokens) :] for branch in self.branches]
        self._texts = [*parts, tokens]
        self._indexes = [NgramIndex.of_earliest(part) for part in parts]
        self._indexes.append(NgramIndex.of_latest(tokens[:-1]))
        self._num_read = len(tokens)
        self._search(tokens)
        if parts and parts[0] and (self._place is None or self._text == len(parts)):
            self._text, self._place, self._matched = 0, 0, SIZE

    def _read(self, tokens: Sequence[int]) -> None:
        """Move on to the end of `tokens`."""
        new = tokens[self._num_read :]
        self._texts[-1] = tokens
        self._indexes[-1].extend(tokens, len(tokens) - 1)
        self._num_read = len(tokens)
        self._follow(new)
        if self._matched < SIZE and not self._search(tokens) and self._place is None:
            self._recover(tokens)

    def _follow(self, new: Sequence[int]) -> None:
        """Go on in the text as far as it has the new tokens."""
        if self._place is None:
            self._num_since += len(new)
            return
        text = self._texts[self._text]
        same = common_prefix(text[self._place : self._place + len(new)], new)
        self._place += same
        self._matched = min(self._matched + same, MAX_MATCH)
        if same:
            self._parted = None
        if same < len(new):
            if self._parted is None:
                self._parted, self._num_since = (self._text, self._place), 0
            self._num_since += len(new) - same
            self._place, self._matched = None, 0

    def _search(self, tokens: Sequence[int]) -> bool:
        """Find the last tokens in a text; whether they are there."""
        for number, index in enumerate(self._indexes):
            place = index.find(tokens)
            if place is not None and place < len(self._texts[number]):
                self._text, self._place = number, place
                self._matched = match_length(self._texts[number], place, tokens)
                return True
        return False

    def _recover(self, tokens: Sequence[int]) -> None:
        """Meet the text again, a little behind the place where the answer parted with it."""
        if self._parted is None or self._num_since > PATIENCE:
            self._parted = None
            return
        number, place = self._parted
        text = self._texts[number]
        last, before = tokens[-1], tokens[-2]
        window = range(place, min(place + WINDOW, len(text) - 1))
        met = [at for at in window if text[at] == last]
        pairs = [at for at in met if text[at - 1] == before]
        if met:
            self._text, self._place = number, (pairs or met)[0] + 1
            self._matched = 2 if pairs else 1
        elif self._num_since == 1 and window:  # one token in place of another
            self._text, self._place, self._matched = number, place + 1, 0

    def _next(self, count: int) -> list[int]:
        """The `count` tokens from the place on, or fewer where a branch ends."""
        assert self._place is not None
        text = self._texts[self._text]
        draft = list(text[self._place : self._place + count])
        if self._text == len(self.branches):
            # The answer repeats what it said just now, so its end is not the end of the draft.
            period = len(text) - self._place
            while len(draft) < count:
                draft.append(draft[-period])
        return draft


def match_length(text: Sequence[int], place: int, tokens: Sequence[int]) -> int:
    """How many tokens before `place` are the last ones of `tokens`, at most MAX_MATCH."""
    limit = min(MAX_MATCH, place, len(tokens))
    length = 0
    while length < limit and text[place - 1 - length] == tokens[-1 - length]:
        length += 1
    return length
