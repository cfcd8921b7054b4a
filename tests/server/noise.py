"""What no client should send: any bytes, any JSON, events with any fields. Its seed repeats it."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, get_args

from radixchat.server.wire_client_events import ClientEvent, ResponseCreate, ResponseRegenerate

_EVENTS: tuple[Any, ...] = get_args(ClientEvent)
# Of the auth event the server's answer is to close the connection, where no key is wanted too.
KINDS = [kind for kind in _EVENTS if kind.__name__ != "Auth"]
FIELDS = sorted({field.name.rstrip("_") for kind in KINDS for field in dataclasses.fields(kind)})
_NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, -(2**70), 0.5, 1e308, 5e-324)
_TEXTS = ("", "a", "é", "\x00", "\U0001f600", "<|im_start|>", "a" * 300, "'; --", "../..", "null")


class Noise:
    """A stream of things to send; known: ids that exist, which are among what it says."""

    def __init__(self, seed: int) -> None:
        self.known: list[str] = ["none"]
        self._random = random.Random(seed)

    def text(self) -> str:
        """A frame: an event, an event cut short or with one character changed, or no event."""
        kind = self._random.random()
        if kind < 0.6:
            return json.dumps(self.event())
        if kind < 0.8:
            return self._spoilt(json.dumps(self.event()))
        if kind < 0.9:
            return json.dumps(self.value(4))
        return "".join(
            chr(self._random.randrange(0x300)) for _ in range(self._random.randrange(50))
        )

    def data(self) -> bytes:
        """A body: bytes of a frame, or any."""
        if self._random.random() < 0.5:
            return self.text().encode()
        return self._random.randbytes(self._random.randrange(200))

    def event(self) -> dict[str, Any]:
        """Of a type that there is, with what that has and more; some values are of any kind."""
        kind = self._random.choice((*KINDS, ResponseCreate, ResponseCreate, ResponseRegenerate))
        names = [field.name.rstrip("_") for field in dataclasses.fields(kind)]
        some = self._random.sample(names, self._random.randrange(len(names) + 1))
        others = self._random.sample(FIELDS, self._random.choice((0, 0, 1, 3)))
        needed = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
        fields = {name: self._field(name) for name in (*some, *others, *needed)}
        # Nobody waits for long answers, and any event may begin one.
        short = {"max_output_tokens": self._random.randrange(1, 6)}
        return {**fields, **short, "type": kind.__dataclass_fields__["type"].default}

    def value(self, depth: int = 3) -> Any:
        """Any JSON, mostly small."""
        makers: Sequence[Callable[[], Any]] = (
            lambda: self._random.choice((None, True, False)),
            lambda: self._random.choice(_NUMBERS),
            lambda: self._random.choice(_TEXTS),
            lambda: [self.value(depth - 1) for _ in range(self._random.randrange(4))],
            lambda: {
                self._random.choice((*FIELDS, *_TEXTS)): self.value(depth - 1)
                for _ in range(self._random.randrange(4))
            },
        )
        return self._random.choice(makers if depth > 0 else makers[:3])()

    def _field(self, name: str) -> Any:
        """A field's value: mostly one that may do."""
        if self._random.random() < 0.1:
            return self.value()
        if name.endswith("_id") and name not in ("event_id", "stream_id"):
            return self._random.choice(self.known)
        if name in ("conversation", "at", "tip", "after", "prefix"):
            return self._random.choice(self.known)
        match name:
            case "input" | "text" | "query" | "instructions" | "name":
                return self._random.choice(_TEXTS)
            case "x":
                return {"seed": 1, "on_busy": "queue", "n": self._random.randrange(1, 3)}
            case "limit" | "n" | "revision" | "starting_after" | "protocol":
                return self._random.randrange(4)
            case "store" | "generate":
                return self._random.random() < 0.7
            case "format":
                return "markdown"
            case "event_id" | "stream_id":
                return self._random.choice(("e1", "main", "other", "x" * 256))
            case _:
                return None

    def _spoilt(self, text: str) -> str:
        place = self._random.randrange(len(text))
        if self._random.random() < 0.5:
            return text[:place]
        return text[:place] + self._random.choice('[]{}",:\\0e-\x00é') + text[place + 1 :]
