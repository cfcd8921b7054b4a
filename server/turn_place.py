"""Where a turn goes: a conversation's path, and what it adds to that before the user's message.

Resolves an ask against the store. Knows no prompt: the path is text until `turn.py` has seen it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.errors import ConversationLocked, InvalidRequest
from radixchat.server.asks import (
    AnotherAnswer,
    Ask,
    EditedTurn,
    InputMessage,
    LongerAnswer,
    NewTurn,
)
from radixchat.server.conversation import Conversation
from radixchat.server.message import Message, check_text, message_id
from radixchat.server.rows import IN_PROGRESS
from radixchat.server.store import Store
from radixchat.server.store_conversation import LOCKED_RETRY_MS
from radixchat.server.unfinished_answer import unfinished_answer

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The conversation as it is stored, and what is added to it.

    path: up to the stored tip. added: messages that are no turn of their own, as they will be
    stored after it; text: the user's message to be answered, None to answer the path's last again
    or, where `warms`, only to have the path computed. turn: the one that `text` replaces, from 1.
    begun: the answer that is gone on with. made: the conversation is this ask's own, and goes where
    the ask is refused.
    """

    path: Conversation
    added: tuple[Message, ...] = ()
    text: str | None = None
    turn: int | None = None
    begun: Message | None = None
    made: bool = False
    listed: bool = True
    previous_response: str | None = None
    instructions: str | None = None

    @property
    def whole(self) -> Conversation:
        """The path as it will be once `added` is stored."""
        return Conversation(self.path.id, self.path.messages + self.added)


def find_place(store: Store, principal: str, ask: Ask, *, kept: bool, warms: bool) -> TurnPlace:
    """Where an ask leads; makes a conversation that no list shows where it needs one of its own.

    kept: whether that one outlasts its client. Raises ConversationNotFound, ResponseNotFound,
    ConversationLocked and InvalidRequest; then nothing is left behind.
    """
    match ask:
        case NewTurn():
            return _new_turn(store, principal, ask, kept=kept, warms=warms)
        case EditedTurn():
            check_text("the message", ask.text)
            path = load_path(store, principal, ask.conversation)
            return TurnPlace(path, text=ask.text, turn=ask.turn, instructions=path.system)
        case AnotherAnswer(conversation=str() as conversation, response=None):
            path = load_path(store, principal, conversation)
            return TurnPlace(path, instructions=path.system)
        case LongerAnswer():
            path = load_path(store, principal, ask.conversation)
            return TurnPlace(path, begun=unfinished_answer(path), instructions=path.system)
        case AnotherAnswer(conversation=None, response=str() as response):
            row = store.response(response, principal=principal)
            own = store.conversation(row.conversation, principal=principal)
            made = store.create_conversation(
                principal=principal,
                tip=row.question,
                listed=False,
                kept=kept,
                sibling_of=own.id if own.listed and kept else None,
            )
            path = load_path(store, principal, made)
            return TurnPlace(path, made=True, listed=False, instructions=path.system)
        case _:
            raise InvalidRequest("name the conversation or the response, and only one of them")


def load_path(store: Store, principal: str, conversation: str) -> Conversation:
    """The path to the conversation's tip; what a killed process has left running has ended."""
    store.settle(conversation)
    tip = store.conversation(conversation, principal=principal).tip
    return Conversation(conversation, tuple(store.path(tip, principal=principal)))


def _new_turn(store: Store, principal: str, ask: NewTurn, *, kept: bool, warms: bool) -> TurnPlace:
    if ask.conversation is not None and ask.previous_response is not None:
        raise InvalidRequest("conversation and previous_response_id exclude each other")
    system, messages = _split_system(ask.instructions, ask.messages)
    text = None
    if messages and messages[-1].role == "user":
        text, messages = messages[-1].text, messages[:-1]
    elif not warms:
        raise InvalidRequest("the last message of the input is not the user's: nothing to answer")
    if ask.conversation is not None:
        path = load_path(store, principal, ask.conversation)
        listed, made = store.conversation(path.id, principal=principal).listed, False
        messages = _own_instructions(path, system) + messages
    else:
        path, made = _unlisted(store, principal, ask.previous_response, system, kept=kept)
        listed = False
    try:
        added = _added(path, messages)
        if warms and text is None and not path.messages and not added:
            raise InvalidRequest("there is nothing to compute: no instructions and no message")
    except BaseException:
        if made:
            store.delete_conversation(path.id, principal=principal)
        raise
    return TurnPlace(
        path,
        added,
        text,
        made=made,
        listed=listed,
        previous_response=ask.previous_response,
        instructions=system,
    )


def _split_system(
    instructions: str | None, messages: Sequence[InputMessage]
) -> tuple[str | None, tuple[InputMessage, ...]]:
    """The system message that the instructions and the input's first messages are together."""
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    parts = [text for text in (instructions, *(m.text for m in messages[:count])) if text]
    for message in messages[count:]:
        if message.role not in ROLES:
            raise InvalidRequest(f"role is {message.role!r}; allowed: {', '.join(ROLES)}")
        if message.role == "system":
            raise InvalidRequest("a system message stands before all others, not between them")
    return "\n\n".join(parts) or None, tuple(messages[count:])


def _own_instructions(path: Conversation, system: str | None) -> tuple[InputMessage, ...]:
    """What instructions add to a conversation that has its own."""
    if system is None or system == path.system:
        return ()
    if not path.messages:
        return (InputMessage("system", system),)
    raise InvalidRequest(
        f"conversation {path.id} begins with other instructions; leave them out, begin another "
        "conversation, or go on with previous_response_id"
    )


def _unlisted(
    store: Store, principal: str, previous: str | None, system: str | None, *, kept: bool
) -> tuple[Conversation, bool]:
    """The conversation of a chain of responses, and whether it was made now.

    A chain that is appended to is one conversation; another is made where a response is gone on
    from a second time, or under other instructions.
    """
    tip = None
    if previous is not None:
        row = store.response(previous, principal=principal)
        if row.status == IN_PROGRESS:
            store.settle(row.conversation)
            row = store.response(previous, principal=principal)
        if row.status == IN_PROGRESS:
            raise ConversationLocked(
                f"response {previous} is not finished; go on from it when it is", LOCKED_RETRY_MS
            )
        tip = row.answer or row.question
        own = store.conversation(row.conversation, principal=principal)
        path = Conversation(own.id, tuple(store.path(tip, principal=principal)))
        if (own.listed, own.kept, own.tip, path.system) == (False, kept, tip, system):
            return path, False
        if path.system == system:
            system = None  # the path has it
        elif system is None:
            tip = store.reroot(tip, principal=principal, system=None)
    made = store.create_conversation(
        principal=principal, system=system, tip=tip, listed=False, kept=kept
    )
    return load_path(store, principal, made), True


def _added(path: Conversation, messages: Sequence[InputMessage]) -> tuple[Message, ...]:
    """The messages as the store will have them: text, without ids."""
    added: list[Message] = []
    parent = path.tip
    for message in messages:
        check_text(f"the {message.role} message", message.text)
        id_ = message_id(
            parent=parent,
            role=message.role,
            text=message.text,
            token_ids=(),
            absolute=False,
            status="complete",
            render_hash="",
        )
        now = time.time()
        stored = Message(id_, parent, message.role, message.text, (), False, "complete", "", now)
        added.append(stored)
        parent = id_
    return tuple(added)
