"""Calls of functions in the text of an answer, as it comes: `ToolText`.

    Let me see.\\n<tool_call>\\n{"name": "weather", "arguments": {"city": "Rome"}}\\n</tool_call>
    ───────────              ─────────────────────               ────────────────
    content                  name known: the call begins         its arguments, piece by piece

Owns what is held back: the end of a text with which a mark may begin, the white space before one,
and a call whose name is not known yet. What is marked as a call and is none, or of a function that
was not offered, is text. Knows no tokens.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from radixchat.engine.prompt import ToolCall
from radixchat.server.tool_prompt import CALL_BEGIN, CALL_END

# The usual order of a call's members; one in another order is told when it is complete.
_HEAD = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
)
_QUOTED = re.compile(r'["\\]')
_BRACES = re.compile(r'["{}]')


@dataclass(frozen=True, slots=True)
class TextPart:
    """More of what the answer says beside its calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPart:
    """More of call number `index`; id and name come with its first part, and only with that."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None


Part = TextPart | CallPart


class ToolText:
    """An answer's text in, parts out; `content` and `calls` are what was told so far.

    dropped: there were more calls than may be.
    """

    def __init__(self, names: Collection[str], *, takes_one: bool) -> None:
        """names: of the functions that may be called; none: all of it is text."""
        self._names = names
        self._takes_one = takes_one
        self._read = self._read_text if names else self._read_nothing
        self._rest = ""  # what is not told yet
        self._space = ""  # before the mark of a call
        self._scan = _BraceScan()
        self.content = ""
        self.calls: list[ToolCall] = []
        self.dropped = False

    def push(self, text: str) -> list[Part]:
        """What this text makes certain."""
        return self._parts(self._rest + text, is_end=False)

    def finish(self) -> list[Part]:
        """What was held back; the answer has ended."""
        return self._parts(self._rest, is_end=True)

    def _parts(self, text: str, *, is_end: bool) -> list[Part]:
        parts: list[Part] = []
        while True:
            read = self._read
            text = read(text, parts, is_end)
            if read is self._read:  # it has not come to the next kind of text
                break
        self._rest = text
        return parts

    def _read_nothing(self, text: str, parts: list[Part], is_end: bool) -> str:
        self._say(text, parts)
        return ""

    def _read_text(self, text: str, parts: list[Part], is_end: bool) -> str:
        """Up to the mark of a call; returns what is left."""
        before, mark, after = text.partition(CALL_BEGIN)
        if mark:
            said = before.rstrip()
            self._say(said, parts)
            self._space = before[len(said) :]
            self._read = self._read_call
            return after
        if is_end:
            self._say(text.rstrip() if self.calls else text, parts)
            return ""
        held = _held(text)
        self._say(text[: len(text) - held], parts)
        return text[len(text) - held :]

    def _read_call(self, text: str, parts: list[Part], is_end: bool) -> str:
        """The name of a call, or all of it where that does not come first."""
        head = _HEAD.match(text)
        if head is not None and (name := _loaded(head[1])) in self._names:
            self._begin(name, parts)
            self._scan = _BraceScan()
            self._read = self._read_arguments
            return text[head.end() :]
        written, mark, after = text.partition(CALL_END)
        if not mark and not is_end:
            return text
        self._read = self._read_text
        called = _calls(_loaded(written), self._names)
        if not called:
            self._say(f"{self._space}{CALL_BEGIN}{written}{mark}", parts)
        for name, arguments in called:
            self._begin(name, parts)
            self._tell(arguments, parts)
        return after

    def _read_arguments(self, text: str, parts: list[Part], is_end: bool) -> str:
        end = self._scan.end(text)
        self._tell(text[:end], parts)
        if self._scan.is_complete:
            self._read = self._read_tail
        return text[end:]

    def _read_tail(self, text: str, parts: list[Part], is_end: bool) -> str:
        """What follows the arguments, which says nothing."""
        _, mark, after = text.partition(CALL_END)
        if mark:
            self._read = self._read_text
            return after
        return "" if is_end else text

    def _begin(self, name: str, parts: list[Part]) -> None:
        if self.calls and self._takes_one:
            self.dropped = True
            return
        self.calls.append(ToolCall(f"call_{secrets.token_hex(12)}", name, ""))
        call = self.calls[-1]
        parts.append(CallPart(len(self.calls) - 1, "", call.id, name))

    def _tell(self, arguments: str, parts: list[Part]) -> None:
        if not arguments or self.dropped:
            return
        call = self.calls[-1]
        self.calls[-1] = ToolCall(call.id, call.name, call.arguments + arguments)
        parts.append(CallPart(len(self.calls) - 1, arguments))

    def _say(self, text: str, parts: list[Part]) -> None:
        if text:
            self.content += text
            parts.append(TextPart(text))


class _BraceScan:
    """Finds the end of a JSON object that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False
        self.is_complete = False

    def end(self, text: str) -> int:
        """How much of the text belongs to the object."""
        at = 0
        if self._escaped and text:
            at, self._escaped = 1, False
        while found := (_QUOTED if self._in_string else _BRACES).search(text, at):
            at = found.end()
            match found[0]:
                case "\\":
                    self._escaped = at == len(text)
                    at += 1
                case '"':
                    self._in_string = not self._in_string
                case "{":
                    self._depth += 1
                case _:
                    self._depth -= 1
            if not self._depth:
                self.is_complete = True
                return at
        return len(text)


def _held(text: str) -> int:
    """How many characters at the end may lead to a call: white space, the beginning of a mark."""
    for length in range(min(len(text), len(CALL_BEGIN) - 1), 0, -1):
        if CALL_BEGIN.startswith(text[-length:]):
            break
    else:
        length = 0
    return len(text) - len(text[: len(text) - length].rstrip())


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _calls(value: Any, names: Collection[str]) -> list[tuple[str, str]]:
    """Names and arguments of what is a call, or a list of calls; [] where it is neither."""
    called: list[tuple[str, str]] = []
    for one in value if isinstance(value, list) else [value]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or name not in names:
            return []
        arguments = one.get("arguments", one.get("parameters", {}))
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        called.append((name, arguments))
    return called
