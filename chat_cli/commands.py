"""What a line of input asks for. Parses, decides nothing, and knows no terminal.

A command is matched exactly, as a whole word; what looks like one and is not is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Say:
    """Send this text as a user's message."""

    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Change a user turn, counted from 1; None: the last turn, or a text still to be asked for."""

    turn: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Regenerate:
    """Answer the last message again."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back the last turn."""


@dataclass(frozen=True, slots=True)
class StartNew:
    """Begin another conversation."""


@dataclass(frozen=True, slots=True)
class ShowStats:
    """Show the engine's figures."""


@dataclass(frozen=True, slots=True)
class ShowHelp:
    """Show the commands."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the chat."""


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """Looks like a command and is none, or lacks what it needs; nothing is sent."""

    reason: str


Command = Say | Edit | Regenerate | Undo | StartNew | ShowStats | ShowHelp | Leave | Misunderstood

HELP: Mapping[str, str] = MappingProxyType(
    {
        "/help": "this list",
        "/new": "start a new conversation with the same system message",
        "/regen": "answer the last message again",
        "/edit N": "change your Nth message (the last one without N), and answer it",
        "/undo": "take back the last message and its answer",
        "/stats": "figures of the engine and its cache",
        "/exit": "leave",
        "//text": 'send "/text"',
    }
)

HOW_TO_LEAVE = "Ctrl-D or /exit leaves, /help lists the commands"
HOW_TO_EDIT = "Enter sends the new text; Ctrl-C clears it, then Ctrl-C or Ctrl-D leaves"

_WITHOUT_ARGUMENT: Mapping[str, Command] = MappingProxyType(
    {
        "/help": ShowHelp(),
        "/new": StartNew(),
        "/regen": Regenerate(),
        "/undo": Undo(),
        "/stats": ShowStats(),
        "/exit": Leave(),
    }
)


def parse(line: str) -> Command:
    """The command of one line, or one message of several lines."""
    if line.startswith("//"):
        return Say(line[1:])
    if not line.startswith("/"):
        return Say(line)
    word, _, argument = line.partition(" ")
    word, argument = word.rstrip(), argument.strip()
    if word == "/edit":
        return _edit(argument)
    command = _WITHOUT_ARGUMENT.get(word)
    if command is None:
        return Misunderstood(
            f"no command {_shortened(word)}, nothing was sent; there are "
            f"{', '.join(HELP)} (// sends a message that begins with /)"
        )
    if argument:
        return Misunderstood(
            f"{word} takes no argument, nothing was sent "
            f"(/{word} … sends a message that begins with {word})"
        )
    return command


def parse_edited(line: str, turn: int) -> Edit | Misunderstood:
    """What a line means as the new text of a user turn: a text, but never a command."""
    command = parse(line)
    if isinstance(command, Say):
        return Edit(turn, command.text)
    if isinstance(command, Misunderstood):
        return command
    word = line.split()[0]
    return Misunderstood(
        f"{word} is no new text, nothing was sent; Ctrl-D at an empty line leaves the edit "
        f"(/{word} … sends a text that begins with {word})"
    )


def line_of(text: str) -> str:
    """The line that is read as this message."""
    return f"/{text}" if text.startswith("/") else text


def _edit(argument: str) -> Command:
    turn, _, text = argument.partition(" ")
    if not argument:
        return Edit(None, None)
    # str.isdecimal alone admits digits of other scripts, which int() would read silently; and
    # int() refuses very long numbers with an error of its own.
    if not (turn.isascii() and turn.isdecimal() and len(turn) < 10 and int(turn) >= 1):
        return Misunderstood(
            f"/edit wants the number of a message, counted from 1, not {_shortened(turn)}"
        )
    return Edit(int(turn), text.strip() or None)


def _shortened(word: str, limit: int = 40) -> str:
    return word if len(word) <= limit else f"{word[:limit]}…"
