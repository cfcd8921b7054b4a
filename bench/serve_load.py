"""`ServeLoad`: the chats of `bench serve`, as numbers, and what their users say.

Owns every text that is sent, but for the answers: words that are one token each in today's
vocabularies (all are in SmolLM2's). A number at the front of the system prompt, of twelve digits
and drawn from the seed, makes everything after it new to a server. Knows no server.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

_DIGITS = 12
_TEXT = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work number night point home water
room mother area money story fact month lot right study book eye job word business issue side kind
head house service friend father power hour game line end member law car city community name team
minute idea body information back parent face level office door health person art war history party
result change morning reason research girl moment air teacher force education foot boy age policy
music market sense nation plan college interest experience effect use class control field role
effort rate heart show leader light voice wife mind price report decision son view town road arm
difference value building action season society director position player record paper space ground
form event matter center couple site project activity star table need court situation cost industry
figure street image phone data picture practice piece land product doctor wall patient worker news
test movie north love support technology
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said. role: "system", "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Round:
    """The same step of all conversations. after: the round whose answer it follows; None begins.

    name: "1" and so on; "edit" asks something else in the middle turn's place, "back" goes on after
    the last turn as if nothing had been edited. turn: from 1, its place in the conversation.
    """

    name: str
    turn: int
    after: str | None


@dataclass(frozen=True, slots=True)
class ServeLoad:
    """Chats that share a system prompt and take turns; lengths are tokens.

    system: of the system prompt. message: of what a user says, answer: of what is answered. edit:
    whether a middle turn is edited at the end, and then gone back to.
    """

    conversations: int = 8
    turns: int = 6
    system: int = 300
    message: int = 20
    answer: int = 48
    edit: bool = False

    def rounds(self) -> Iterator[Round]:
        """In the order in which they are played."""
        for turn in range(1, self.turns + 1):
            yield Round(str(turn), turn, str(turn - 1) if turn > 1 else None)
        if self.edit:
            middle = (self.turns + 1) // 2
            yield Round("edit", middle, str(middle - 1) if middle > 1 else None)
            yield Round("back", self.turns + 1, str(self.turns))

    def system_prompt(self, number: str) -> Message:
        """Of every conversation whose texts are to begin with the number."""
        rng = random.Random("system")
        return Message("system", f"{number}.{_words(rng, self.system - _DIGITS - 1)}")

    def message_of(self, conversation: int, step: Round) -> Message:
        """What the user says; the same in every arm."""
        rng = random.Random(f"{conversation} {step.name}")
        return Message("user", _words(rng, self.message).strip())

    def __str__(self) -> str:
        edits = "; a middle turn is edited and gone back to" if self.edit else ""
        return (
            f"{self.conversations} conversations of {self.turns} turns, round robin; {self.system}"
            f" tokens of system prompt, {self.message} a message, {self.answer} an answer{edits}"
        )


def front_number(seed: int, *names: str) -> str:
    """Twelve digits: others for another seed or other names."""
    text = "/".join((str(seed), *names))
    return f"{int.from_bytes(sha256(text.encode()).digest()) % 10**_DIGITS:0{_DIGITS}d}"


def _words(rng: random.Random, count: int) -> str:
    """With a space before each."""
    return "".join(f" {rng.choice(_WORDS)}" for _ in range(max(1, count)))
