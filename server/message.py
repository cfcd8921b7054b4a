"""One node of the message tree: its text, its exact token ids, and the id that both give it.

A message's id is a hash of its content *and its parent's id*. So two conversations that share
a prefix share the rows that store it, a fork or a re-sent turn costs only what is new, and two
writers that store the same node agree without asking each other. Knows no database.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.errors import InvalidRequest, StoreError


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What an absolute message's ids are without, of the path before it, for want of room.

    messages: how many, the oldest after the system message. tokens: how many more ids the whole
    path would have had.
    """

    messages: int = 0
    tokens: int = 0


NOTHING = LeftOut()


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A user's turn before it is stored.

    token_ids: everything that it adds to the prompt: the end of the turn before, the turn
    itself, and the generation prompt that the answer follows. absolute: they are the whole
    prompt, from its first token; the ids before them on the path no longer count.
    """

    text: str
    token_ids: tuple[int, ...]
    absolute: bool = False
    left_out: LeftOut = NOTHING


@dataclass(frozen=True, slots=True)
class Answer:
    """What was generated so far: the text shown, and the ids without the stop token."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A stored node. The ids along a path, from its last absolute node on, are the conversation.

    parent: id of the node before it; None at the root. role: "system", "user" or "assistant".
    token_ids, absolute, left_out: a user node holds what NewMessage says, an assistant node the
    sampled ids; a system node may hold none, being rendered with the first user turn.
    status: "complete"; "interrupted", cut short by a person, a crash or a limit; or "error".
    render_hash: which model, tokenizer and template made the ids; "" where there are none.
    created_at: seconds since the epoch; since when the principal who asks has it.
    """

    id: str
    parent: str | None
    role: str
    text: str
    token_ids: tuple[int, ...]
    absolute: bool
    status: str
    render_hash: str
    created_at: float
    left_out: LeftOut = NOTHING


def message_id(
    *,
    parent: str | None,
    role: str,
    text: str,
    token_ids: Sequence[int],
    absolute: bool,
    status: str,
    render_hash: str,
    left_out: LeftOut = NOTHING,
) -> str:
    """ "msg_" and the blake2b-16 of the canonical JSON of everything but the time.

    The status counts: an interrupted answer is another node than a complete one of equal text.
    """
    content: dict[str, object] = {
        "absolute": absolute,
        "parent": parent,
        "render_hash": render_hash,
        "role": role,
        "status": status,
        "text": text,
        "token_ids": list(token_ids),
    }
    if left_out != NOTHING:  # otherwise the id is the one that it was before there was this field
        content["left_out"] = [left_out.messages, left_out.tokens]
    canonical = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return "msg_" + hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def user_message(parent: str | None, message: NewMessage, render_hash: str) -> Message:
    """The node that a user's turn becomes under `parent`, stored or not."""
    id_ = message_id(
        parent=parent,
        role="user",
        text=message.text,
        token_ids=message.token_ids,
        absolute=message.absolute,
        status="complete",
        render_hash=render_hash,
        left_out=message.left_out,
    )
    return Message(
        id=id_,
        parent=parent,
        role="user",
        text=message.text,
        token_ids=message.token_ids,
        absolute=message.absolute,
        status="complete",
        render_hash=render_hash,
        created_at=time.time(),
        left_out=message.left_out,
    )


def check_text(what: str, text: str) -> str:
    """The text; raises InvalidRequest where it cannot be encoded as UTF-8.

    Python makes lone surrogates of undecodable bytes and of half an escaped emoji. They have
    no UTF-8 form, so they could neither be tokenized nor stored nor sent.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = f"U+{ord(text[error.start]):04X}"
        raise InvalidRequest(
            f"{what} is not valid Unicode: a lone surrogate, {code}, at character {error.start}"
        ) from None
    return text


def pack_ids(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32; raises InvalidRequest for an id out of range."""
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < 2**31:
        wrong = next(token for token in token_ids if not 0 <= token < 2**31)
        raise InvalidRequest(f"token id {wrong} is out of range; allowed: 0 to 2**31 - 1")
    return _little_endian(array("i", token_ids)).tobytes()


def unpack_ids(packed: bytes) -> tuple[int, ...]:
    """The inverse of pack_ids; raises StoreError for bytes that it cannot have made."""
    ids = array("i")
    if len(packed) % ids.itemsize:
        raise StoreError(f"{len(packed)} bytes are not a whole number of token ids")
    ids.frombytes(packed)
    return tuple(_little_endian(ids))


def _little_endian(ids: array[int]) -> array[int]:
    assert ids.itemsize == 4, "a C int has four bytes wherever Python runs today"
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
