"""A conversation as a value: a path in the message tree, as text and as exact token ids.

Answers what a turn, an edit, a regeneration or an undo starts from. Nothing is encoded again:
the ids of a path are its messages' ids, joined. Knows no database, no tokenizer and no template;
whoever stores the result checks that the tree has not moved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage
from radixchat.server.message import NOTHING, LeftOut, Message, NewMessage, user_message


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages from the root to the tip. Every message's parent is the one before it."""

    id: str
    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        assert not self.messages or self.messages[0].parent is None, "a path starts at a root"
        assert all(after.parent == before.id for before, after in pairwise(self.messages))

    @property
    def tip(self) -> str | None:
        """The id of the last message; None while there is none."""
        return self.messages[-1].id if self.messages else None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The exact ids of the path, joined: the prompt that the next turn extends."""
        return tuple(chain.from_iterable(message.token_ids for message in self.since_absolute))

    @property
    def since_absolute(self) -> tuple[Message, ...]:
        """The messages whose ids count: from the last absolute one on; all, if none is."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].absolute:
                return self.messages[index:]
        return self.messages

    @property
    def gap(self) -> LeftOut:
        """How much of the path the ids are without."""
        return next((message.left_out for message in self.since_absolute), NOTHING)

    @property
    def left_out(self) -> tuple[Message, ...]:
        """The messages that the ids are without."""
        return self.messages[self.num_system : self.num_system + self.gap.messages]

    @property
    def shown(self) -> tuple[Message, ...]:
        """The messages that the ids have."""
        return self.without(self.gap.messages)

    def without(self, count: int) -> tuple[Message, ...]:
        """The messages but for the `count` oldest after the system message."""
        return self.messages[: self.num_system] + self.messages[self.num_system + count :]

    @property
    def num_system(self) -> int:
        """1 where the path starts with a system message, else 0."""
        return int(self.system is not None)

    @property
    def system(self) -> str | None:
        """The text of the system message, if the path starts with one."""
        has_one = bool(self.messages) and self.messages[0].role == "system"
        return self.messages[0].text if has_one else None

    @property
    def user_messages(self) -> tuple[Message, ...]:
        """The user's messages, oldest first."""
        return tuple(message for message in self.messages if message.role == "user")

    @property
    def last_user(self) -> Message | None:
        """The user's last message on the path, answered or not."""
        return next((m for m in reversed(self.messages) if m.role == "user"), None)

    def user_message(self, turn: int) -> Message:
        """The user's message of that turn, counted from 1; raises InvalidRequest for another."""
        turns = self.user_messages
        if not 1 <= turn <= len(turns):
            have = f"there are {len(turns)} turns" if len(turns) != 1 else "there is 1 turn"
            raise InvalidRequest(f"there is no turn {turn}: {have} in this conversation")
        return turns[turn - 1]

    def before_turn(self, turn: int) -> Conversation:
        """The path up to that turn's user message, without it: what an edited turn follows.

        Its tip is the parent for the new message. Raises InvalidRequest as user_message does.
        """
        return self.until(self.user_message(turn).parent)

    def for_regeneration(self) -> Conversation:
        """The path that ends with the user's last message: what another answer follows.

        Raises InvalidRequest where the user has said nothing yet.
        """
        return self.until(self._require_user("regenerate").id)

    def before_last_turn(self) -> Conversation:
        """The path without the user's last message and its answer: where an undo leads.

        Raises InvalidRequest where the user has said nothing yet.
        """
        return self.until(self._require_user("undo").parent)

    def said(self, message: NewMessage, render_hash: str) -> Conversation:
        """The path with the user's new message at its end, as the store will have it."""
        node = user_message(self.tip, message, render_hash)
        return Conversation(self.id, (*self.messages, node))

    def until(self, tip: str | None) -> Conversation:
        """The path up to and including the message `tip`; None gives the empty path.

        Raises InvalidRequest where `tip` is not on the path.
        """
        if tip is None:
            return Conversation(self.id, ())
        for length, message in enumerate(self.messages, start=1):
            if message.id == tip:
                return Conversation(self.id, self.messages[:length])
        raise InvalidRequest(f"message {tip!r} is not on the path of conversation {self.id}")

    def _require_user(self, action: str) -> Message:
        if self.last_user is None:
            raise InvalidRequest(f"there is nothing to {action}: the conversation has no turn yet")
        return self.last_user


def chat_messages(path: Sequence[Message]) -> list[ChatMessage]:
    """The path as a template wants it: an unanswered user message gets an empty answer."""
    messages: list[ChatMessage] = []
    for message in path:
        if message.role == "user" and messages and messages[-1].role == "user":
            messages.append(ChatMessage("assistant", ""))
        messages.append(ChatMessage(message.role, message.text))
    return messages
