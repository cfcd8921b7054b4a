"""`Turn`: what is about to be stored and answered, as it follows from a conversation.

Owns the choice between the whole prompt and a shortened one. Pure, and slow for long texts, which
are rendered and encoded here: call it off the loop. Knows no store and no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.server.conversation import Conversation
from radixchat.server.message import NewMessage
from radixchat.server.prompt import PromptBuilder, UserTurn
from radixchat.server.truncation import shortened_turn


@dataclass(frozen=True, slots=True)
class Turn:
    """What is about to be stored and answered.

    path: the conversation as it was read. asked: the path that ends with the message to be
    answered. message: that message, where it is new; None answers `parent`, a user message, again.
    """

    path: Conversation
    asked: Conversation
    message: NewMessage | None
    prompt_ids: tuple[int, ...]

    @property
    def parent(self) -> str | None:
        """What the new message follows; without one, the message to be answered."""
        return self.asked.tip if self.message is None else self.asked.messages[-1].parent


def next_turn(
    prompts: PromptBuilder,
    path: Conversation,
    history: Conversation,
    text: str,
    limit: int | None,
) -> Turn:
    """The turn that appends `text` to `history`, a beginning of the path.

    limit: a longer prompt leaves out the oldest turns; None: it never does. Raises InvalidRequest
    for text that cannot be sent.
    """
    turn = _said(prompts, path, history, prompts.user_turn(history, text))
    return _shortened(prompts, turn, limit)


def another_answer(prompts: PromptBuilder, path: Conversation, limit: int | None) -> Turn:
    """The turn that answers the last user message again; otherwise as next_turn.

    Where turns have to be left out, the message is said again: its ids are another prompt then.
    """
    question = path.for_regeneration()
    turn = Turn(path, question, None, prompts.prompt_ids(question))
    return _shortened(prompts, turn, limit)


def _shortened(prompts: PromptBuilder, turn: Turn, limit: int | None) -> Turn:
    if limit is None or len(turn.prompt_ids) <= limit:
        return turn
    said = shortened_turn(prompts, turn.asked, len(turn.prompt_ids), limit)
    if said is None:
        return turn
    history = turn.asked.until(turn.asked.messages[-1].parent)
    return _said(prompts, turn.path, history, said)


def _said(
    prompts: PromptBuilder, path: Conversation, history: Conversation, said: UserTurn
) -> Turn:
    asked = history.said(said.message, prompts.render_hash)
    return Turn(path, asked, said.message, said.prompt_ids)
