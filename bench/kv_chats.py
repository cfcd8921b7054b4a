"""The text that `bench kv` reads: whole chats in a model's tokens, cut to a window.

Knows no engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixchat.bench.trace_chats import turn_ends
from radixchat.bench.trace_file import TraceFile
from radixchat.bench.trace_messages import chat_messages
from radixchat.bench.trace_template import TemplateEncoder


def chat_windows(chats: str, encoder: TemplateEncoder, window: int, total: int) -> list[list[int]]:
    """The beginnings of as many chats as have `total` tokens that can be predicted.

    chats: a file with one chat a line, as `bench replay` reads it; those shorter than half a
    window are left out, as little is read back from the cache in them. Raises TraceError; fewer
    tokens come of a file that has no more.
    """
    found: list[list[int]] = []
    for tokens in _chats(chats, encoder):
        if total <= 0:
            break
        if len(tokens) >= window // 2:
            found.append(tokens[: min(window, total + 1)])
            total -= len(found[-1]) - 1  # the first token is not predicted
    return found


def _chats(chats: str, encoder: TemplateEncoder) -> Iterator[list[int]]:
    for line in TraceFile(chats).lines():
        messages = chat_messages(line)
        ends = list(turn_ends(messages))
        if ends:
            end, reply = ends[-1]
            prompt, output = encoder.begin().turn(messages[:end], reply)
            yield prompt + output
