"""`Turn`: what is about to be stored and answered, as it follows from a conversation.

Owns the choice between the whole prompt and a shortened one: all of the conversation as soon as it
fits, else what the turns before went on with, else less. Pure, and slow for long texts, which are
rendered and encoded here: call it off the loop. Knows no store and no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.engine.errors import InvalidRequest
from radixchat.server.conversation import Conversation
from radixchat.server.message import NOTHING, Message, NewMessage
from radixchat.server.prompt import PromptBuilder, UserTurn
from radixchat.server.truncation import shortened_turn


@dataclass(frozen=True, slots=True)
class Turn:
    """What is about to be stored and answered.

    path: the conversation as it was read. asked: the path that ends with the message to be
    answered. message: that message, where it is new; None answers `parent`, a user message, again.
    begun: the tokens that the answer begins with.
    """

    path: Conversation
    asked: Conversation
    message: NewMessage | None
    prompt_ids: tuple[int, ...]
    begun: tuple[int, ...] = ()

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

    limit: a longer prompt leaves out the oldest turns; None: nothing is left out, nor stays so.
    Raises InvalidRequest for text that cannot be sent.
    """
    turn = _said(prompts, path, history, prompts.user_turn(history, text))
    return _fitted(prompts, turn, limit)


def another_answer(prompts: PromptBuilder, path: Conversation, limit: int | None) -> Turn:
    """The turn that answers the last user message again; otherwise as next_turn.

    Where turns have to be left out, or come back, the message is said again: its ids are another
    prompt then.
    """
    question = path.for_regeneration()
    turn = Turn(path, question, None, prompts.prompt_ids(question))
    return _fitted(prompts, turn, limit)


def longer_answer(prompts: PromptBuilder, path: Conversation, begun: Message) -> Turn:
    """The turn that goes on with `begun`, the answer at the path's end.

    Raises InvalidRequest where its exact tokens are not known.
    """
    question = path.until(begun.parent)
    prompt = prompts.stored_ids(question)
    if prompt is None or begun.render_hash != prompts.render_hash:
        raise InvalidRequest(
            "the last answer's tokens are not this model's: it cannot be continued, only answered "
            "again"
        )
    return Turn(path, question, None, prompt, begun.token_ids)


def _fitted(prompts: PromptBuilder, turn: Turn, limit: int | None) -> Turn:
    """The turn with all of the conversation where that fits, else as it is, else shortened."""
    question, gap = turn.asked.messages[-1], turn.asked.gap
    history = turn.asked.until(question.parent)
    # With what is known to be left out this is the length of an uncut prompt: what stays too long
    # is not rendered to see that. Only what another model has counted says nothing.
    num_tokens = gap.tokens + len(turn.prompt_ids)
    is_counted = prompts.stored_ids(turn.asked) is not None
    if gap != NOTHING and (limit is None or num_tokens <= limit or not is_counted):
        full = _said(prompts, turn.path, history, prompts.full_turn(history, question.text))
        num_tokens = len(full.prompt_ids)
        if limit is None or num_tokens <= limit:
            return full
    if limit is None or len(turn.prompt_ids) <= limit:
        return turn
    said = shortened_turn(prompts, turn.asked, num_tokens, limit)
    return turn if said is None else _said(prompts, turn.path, history, said)


def _said(
    prompts: PromptBuilder, path: Conversation, history: Conversation, said: UserTurn
) -> Turn:
    asked = history.said(said.message, prompts.render_hash)
    return Turn(path, asked, said.message, said.prompt_ids)
