"""Finds the exact tokens of a conversation that a client sends as messages: `MessageIndex`.

A stateless client sends its whole conversation again with each question, as text. What we sent
and sampled before was exact tokens, which encoding the text again need not give; so the tokens are
kept by what was said, and only what nobody knows is encoded.

    key      hash of the messages so far, one after another, and of what heads them
    value    the tokens that these add to those of the longest beginning that is known

              [system, user]? ──► answer A ──► user 2? ──► answer B      "?": the prompt, with
                                          └──► user 2'? ─► answer C      what asks for an answer

Bounded in bytes; what was not looked for longest goes first, and a beginning is never older than
what follows it. One principal's: nobody finds what another has said. Knows no template.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.prompt import ChatMessage, ToolCall

MAX_BYTES = 64 << 20
# Of an entry without its tokens: two keys, two objects, a place in the dictionary.
ENTRY_BYTES = 400


@dataclass(frozen=True, slots=True)
class _Entry:
    """added: the ids after those of the parent, which has so many; together `length`."""

    parent: bytes | None
    added: array[int]
    length: int

    @property
    def num_bytes(self) -> int:
        return ENTRY_BYTES + self.added.itemsize * len(self.added)


class MessageIndex:
    """Keys to token ids; on one event loop."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()  # the oldest first
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes) -> tuple[int, ...] | None:
        """The ids of what was said up to there, if they are known."""
        chain = self._touched(key)
        if not chain:
            return None
        ids = array("i")
        for entry in reversed(chain):
            ids += entry.added
        assert len(ids) == chain[0].length
        return tuple(ids)

    def add(self, key: bytes, ids: Sequence[int], parent: bytes | None = None) -> None:
        """Keep the ids of a beginning; what is known already stays as it is.

        parent: a beginning of this one. Its ids are not kept twice, if they still are these.
        """
        if key in self._entries:
            self._touched(key)
            return
        known = None if parent is None else self.find(parent)
        if known is None or known != tuple(ids[: len(known)]):
            parent, known = None, ()
        entry = _Entry(parent, array("i", ids[len(known) :]), len(ids))
        if entry.num_bytes > self._max_bytes:
            return
        self._entries[key] = entry
        self.num_bytes += entry.num_bytes
        self._touched(key)
        while self.num_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.num_bytes -= oldest.num_bytes

    def _touched(self, key: bytes | None) -> list[_Entry]:
        """The entry and what it goes back to; each becomes newer than what follows it."""
        chain = []
        while key is not None and (entry := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
            chain.append(entry)
            key = entry.parent
        return chain


def start_key(head: object) -> bytes:
    """The key of no message yet; head: what stands before all of them, such as tools, as JSON."""
    return _hash(b"", json.dumps(head, sort_keys=True, separators=(",", ":")))


def next_key(before: bytes, message: ChatMessage) -> bytes:
    """The key of the messages up to this one.

    A call's id is the server's invention and its arguments may have been written anew: neither
    makes another conversation.
    """
    calls = [[call.name, _canonical(call)] for call in message.tool_calls]
    written = json.dumps([calls, message.tool_call_id], separators=(",", ":"))
    return _hash(before, message.role, message.content, written)


def prompt_key(before: bytes) -> bytes:
    """The key of the prompt that asks for an answer to the messages up to there."""
    return _hash(before, "prompt")


def _canonical(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return call.arguments


def _hash(before: bytes, *parts: str) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()
