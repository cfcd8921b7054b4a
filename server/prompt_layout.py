"""Where each message of a conversation lies in the tokens of a prompt.

Found only when somebody asks: the part of a prompt that was rendered as a whole keeps no borders,
so it is rendered again, up to the message in question. A message's share begins where the text
of the one before it ends: it holds the template's text that leads to its own. Knows no cache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage, Piece
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.conversation import Conversation, chat_messages


@dataclass(frozen=True, slots=True)
class Place:
    """A token's place: in the share of message number `position`; in its text, or before that."""

    position: int
    in_text: bool


class PromptLayout:
    """The layout of one prompt, `token_ids`, that ends with the user's message to be answered.

    Positions count the messages that the path shows. num_rendered: how many of these the prompt's
    first part holds, which was rendered as a whole; the later messages' own ids follow, joined.
    Immutable but for what it remembers.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        path: Conversation,
        token_ids: Sequence[int],
        num_rendered: int,
    ) -> None:
        assert 1 <= num_rendered <= len(path.shown)
        self._tokenizer = tokenizer
        self._template = template
        self._messages = path.shown
        self._num_rendered = num_rendered
        lengths = [len(message.token_ids) for message in self._messages[num_rendered:]]
        self._rendered = token_ids[: len(token_ids) - sum(lengths)]
        # Where each appended message begins.
        self._appended = tuple(accumulate(lengths, initial=len(self._rendered)))

    @property
    def last(self) -> int:
        """The position of the message to be answered."""
        return len(self._messages) - 1

    def start(self, position: int) -> int | None:
        """The first token of a message's share; None where a new rendering cannot tell."""
        if position == 0:
            return 0
        if position >= self._num_rendered:
            return self._appended[position - self._num_rendered]
        if not self._is_reproducible:
            return None
        before = self._through(position - 1)
        return None if before is None else self._length(before)

    def place(self, index: int) -> Place | None:
        """Where token number `index` lies; None where a new rendering cannot tell."""

        def start(position: int) -> int:
            found = self.start(position)
            if found is None:
                raise _Unknown
            return found

        try:
            position = bisect_right(range(len(self._messages)), index, key=start) - 1
        except _Unknown:
            return None
        if position >= self._num_rendered:
            # What the template adds around an appended message depends on no other's text.
            return Place(position, in_text=True)
        text_start = self._text_start(position)
        return None if text_start is None else Place(position, index >= text_start)

    def _text_start(self, position: int) -> int | None:
        """The first token of what the prompt shows of a rendered message's text."""
        through = self._through(position)
        before = self._through(position - 1) if position else []
        if through is None or before is None:
            return None
        end, at = sum(len(piece.text) for piece in before), 0
        for count, piece in enumerate(through):
            beyond = at + len(piece.text)
            if piece.is_content and beyond > end:
                others = Piece(piece.text[: max(0, end - at)], is_content=True)
                return self._length([*through[:count], others])
            at = beyond
        return self._length(through)

    @cached_property
    def _is_reproducible(self) -> bool:
        """Whether the rendered part is what rendering it now would give."""
        pieces = self._template.render(self._chat, add_generation_prompt=True)
        return tuple(self._tokenizer.encode_prompt(pieces)) == tuple(self._rendered)

    @cached_property
    def _chat(self) -> list[ChatMessage]:
        return chat_messages(self._messages[: self._num_rendered])

    def _through(self, position: int) -> list[Piece] | None:
        """What is rendered up to the end of that message's text."""
        roles = [message.role for message in self._messages[: position + 1]]
        filled = sum(pair == ("user", "user") for pair in pairwise(roles))
        try:
            return self._template.render_through(self._chat, position + filled)
        except InvalidRequest:  # the mark in the text led the template astray
            return None

    def _length(self, pieces: Sequence[Piece]) -> int:
        """How many of the prompt's tokens these pieces are."""
        return common_prefix(self._tokenizer.encode_prompt(pieces), self._rendered)


class _Unknown(Exception):
    """A border that a new rendering cannot tell."""
