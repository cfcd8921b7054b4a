"""Chats: one line a conversation, whose turns become requests.

    {"messages": […], "conversation": "a", "time": 12.5}

    messages       as `trace_messages.py` reads them; ShareGPT's conversations likewise
    conversation   text or a whole number, may be absent: then the line's id, or its number; also
                   called conversation_id, session, session_id or chat_id
    time           seconds, or an ISO 8601 date, of the line as a whole; also called timestamp

A turn is what was said since the last answer, with a user's (or a tool's) message in it: its
request is everything up to there and the generation prompt, its output the answer that follows. A
chat without a user's message asks for nothing, and its line is noted. Owns that, and the order in
which several chats take turns. Knows no tokenizer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from radixchat.bench.trace_clock import TraceClock
from radixchat.bench.trace_item import TraceRequest
from radixchat.bench.trace_line import TraceLine
from radixchat.bench.trace_messages import chat_messages
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage


class ChatTokens(Protocol):
    """One chat in tokens; `trace_words.py` and `trace_template.py` have one each."""

    def turn(
        self, messages: Sequence[ChatMessage], reply: str | None
    ) -> tuple[list[int], list[int]]:
        """The ids of the prompt and of the reply; called with ever more messages."""


@dataclass(frozen=True, slots=True)
class ChatReader:
    """Lines to requests; a unit is a token.

    begin: makes the encoder of a new chat. keep_replies: False: the requests have no output.
    last_turn: only the last turn of a line is a request, as in the log of an API that is sent the
    whole chat each time. concurrency: so many chats take turns, one request each; a new one
    begins when one has ended. quiet: the numbers of the lines read so far that ask for nothing.
    """

    begin: Callable[[], ChatTokens]
    keep_replies: bool = True
    namespace_by: str | None = None
    last_turn: bool = False
    concurrency: int = 1
    quiet: set[int] = field(default_factory=set)

    def read(self, lines: Iterable[TraceLine]) -> Iterator[TraceRequest]:
        """The requests; raises TraceError at a damaged line.

        Memory holds `concurrency` chats. Without times, a request's time is its number; with
        them, its line's, or that of the request before where chats that take turns overtake it.
        """
        clock = TraceClock()
        waiting = iter(lines)
        running: deque[tuple[float | None, Iterator[TraceRequest]]] = deque()
        requests, latest = 0, 0.0
        while True:
            while len(running) < self.concurrency and (line := next(waiting, None)) is not None:
                elapsed = clock.elapsed(line, line.seconds())
                running.append((elapsed, self._requests(line)))
            if not running:
                return
            elapsed, chat = running.popleft()
            if (request := next(chat, None)) is not None:
                running.append((elapsed, chat))
                latest = float(requests) if elapsed is None else max(latest, elapsed)
                requests += 1
                yield replace(request, time=latest)

    def _requests(self, line: TraceLine) -> Iterator[TraceRequest]:
        """The turns of one chat; `read` gives them their time."""
        messages = chat_messages(line)
        namespace = line.namespace(self.namespace_by)
        own_id = line.fields.get("id")
        if type(own_id) is not int and not isinstance(own_id, str):
            own_id = f"line {line.number}"
        conversation = line.conversation(namespace, default=own_id)
        tokens = self.begin()
        turns = list(turn_ends(messages))
        if not turns:
            self.quiet.add(line.number)
        for turn, (end, reply) in enumerate(turns, 1):
            if self.last_turn and turn < len(turns):
                continue
            try:
                prompt, output = tokens.turn(messages[:end], reply)
            except InvalidRequest as error:
                raise line.error(str(error)) from error
            yield TraceRequest(
                prompt=np.array(prompt, np.int32),
                num_tokens=len(prompt),
                output=np.array(output if self.keep_replies else [], np.int32),
                time=0.0,
                namespace=namespace,
                conversation=conversation,
                turn=turn,
            )


def turn_ends(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, str | None]]:
    """For each turn, how many messages its prompt has, and the reply; None: it has none."""
    asked = False
    for index, message in enumerate(messages):
        if message.role != "assistant":
            asked |= message.role in ("user", "tool")
        elif asked:
            yield index, message.content
            asked = False
    if asked:
        yield len(messages), None
