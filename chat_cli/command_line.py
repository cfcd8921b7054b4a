"""Reads a line of input as a command, or as a message. Decides nothing, and knows no terminal.

A command is matched exactly, as a whole word; what looks like one and is not is never sent.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from radixchat.chat_cli.commands import (
    Attach,
    ChangeModel,
    ClearScreen,
    Command,
    Continue,
    Copy,
    Delete,
    Edit,
    Export,
    Fork,
    Leave,
    ListConversations,
    Misunderstood,
    Paste,
    Regenerate,
    Rename,
    Save,
    Say,
    Search,
    SetOption,
    SetSystem,
    ShowCache,
    ShowHelp,
    ShowStats,
    ShowTree,
    ShowWhy,
    StartNew,
    Switch,
    ToggleMultiline,
    Undo,
)

HOW_TO_LEAVE = "Ctrl-D or /exit leaves, /help lists the commands"
HOW_TO_EDIT = "Enter sends the new text; Ctrl-C clears it, then Ctrl-C or Ctrl-D leaves"

MAX_ANSWERS = 8
"""Answers that are asked for at once; a server has so many lanes."""
EXPORT_KINDS: Mapping[str, str] = MappingProxyType({"md": "markdown", "json": "json"})


class _Wrong(Exception):
    """An argument that a command cannot have; says what it can."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a command is written, what it does, and what its argument makes of it."""

    usage: str
    help: str
    read: Callable[[str], Command]


def _alone(command: Command) -> Callable[[str], Command]:
    def read(argument: str) -> Command:
        if argument:
            raise _Wrong("takes no argument")
        return command

    return read


def _optional(make: Callable[[str | None], Command]) -> Callable[[str], Command]:
    return lambda argument: make(argument or None)


def _required(make: Callable[[str], Command], what: str) -> Callable[[str], Command]:
    def read(argument: str) -> Command:
        if not argument:
            raise _Wrong(f"wants {what}")
        return make(argument)

    return read


def _number(text: str, what: str, most: int | None = None) -> int:
    # str.isdecimal alone admits digits of other scripts, which int() would read silently; and
    # int() refuses very long numbers with an error of its own.
    if text.isascii() and text.isdecimal() and len(text) < 10:
        number = int(text)
        if number >= 1 and (most is None or number <= most):
            return number
    bounds = "counted from 1" if most is None else f"from 1 to {most}"
    raise _Wrong(f"wants {what}, {bounds}, not {_shortened(text)}")


def _edit(argument: str) -> Command:
    turn, _, text = argument.partition(" ")
    if not argument:
        return Edit(None, None)
    return Edit(_number(turn, "the number of a message"), text.strip() or None)


def _regenerate(argument: str) -> Command:
    return Regenerate(_number(argument, "a number of answers", MAX_ANSWERS) if argument else 1)


def _export(argument: str) -> Command:
    kind, _, file = argument.partition(" ")
    if kind not in EXPORT_KINDS:
        raise _Wrong(f"wants md or json, not {_shortened(kind) or 'nothing'}")
    return Export(EXPORT_KINDS[kind], file.strip() or None)


def _copy(argument: str) -> Command:
    if not argument:
        return Copy()
    word, _, number = argument.partition(" ")
    if word != "code":
        raise _Wrong(f"copies the answer, or with `code N` a code block, not {_shortened(word)}")
    return Copy(_number(number.strip(), "the number of a code block") if number.strip() else 1)


def _set(argument: str) -> Command:
    name, _, value = argument.partition(" ")
    return SetOption(name.replace("-", "_") or None, value.strip() or None)


def _help(argument: str) -> Command:
    if not argument:
        return ShowHelp()
    word = f"/{argument.removeprefix('/')}"
    if word not in _RULES:
        raise _Wrong(f"knows no command {_shortened(word)}")
    return ShowHelp(word)


_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "/help": _Rule("/help [COMMAND]", "this list, or one command", _help),
        "/exit": _Rule("/exit", "leave", _alone(Leave())),
        "/new": _Rule(
            "/new", "start a new conversation with the same system message", _alone(StartNew())
        ),
        "/list": _Rule("/list", "the conversations used last", _alone(ListConversations())),
        "/switch": _Rule(
            "/switch NAME",
            "go on in another conversation (name or id), or in a branch (#N of /tree)",
            _required(Switch, "the name or id of a conversation, or #N of /tree"),
        ),
        "/rename": _Rule(
            "/rename NAME", "name this conversation", _required(Rename, "the conversation's name")
        ),
        "/delete": _Rule(
            "/delete [NAME]", "delete this conversation, or that one", _optional(Delete)
        ),
        "/system": _Rule(
            "/system [TEXT]", "show the system message, or begin with another", _optional(SetSystem)
        ),
        "/model": _Rule(
            "/model [NAME]", "show the model, or go on with another", _optional(ChangeModel)
        ),
        "/set": _Rule("/set [NAME [VALUE]]", "show or change how answers are sampled", _set),
        "/multi": _Rule(
            "/multi", "Enter begins a new line, Alt-Enter sends; or back", _alone(ToggleMultiline())
        ),
        "/edit": _Rule(
            "/edit [N [TEXT]]", "change your Nth message (the last without N), and answer it", _edit
        ),
        "/regen": _Rule(
            "/regen [K]", "answer the last message again; of K answers, choose one", _regenerate
        ),
        "/continue": _Rule(
            "/continue", "go on with an answer that was cut short", _alone(Continue())
        ),
        "/undo": _Rule("/undo", "take back the last message and its answer", _alone(Undo())),
        "/fork": _Rule(
            "/fork [NAME]",
            "go on in a second conversation with the same history",
            lambda argument: Fork(argument),
        ),
        "/tree": _Rule("/tree", "the branches, hot and cold", _alone(ShowTree())),
        "/search": _Rule(
            "/search WORDS", "find messages", _required(Search, "the words to look for")
        ),
        "/save": _Rule(
            "/save [NAME]", "name this conversation; how to come back to it", _optional(Save)
        ),
        "/export": _Rule(
            "/export md|json [FILE]", "write the conversation out (to the screen)", _export
        ),
        "/copy": _Rule("/copy [code [N]]", "copy the answer, or its Nth code block", _copy),
        "/attach": _Rule(
            "/attach FILE",
            "put a text file before your next message",
            _required(Attach, "the name of a file"),
        ),
        "/paste": _Rule("/paste", "put the clipboard into the input", _alone(Paste())),
        "/stats": _Rule("/stats", "figures of the engine and its cache", _alone(ShowStats())),
        "/cache": _Rule(
            "/cache", "what is cached (dim), and what edits would cost", _alone(ShowCache())
        ),
        "/why": _Rule("/why", "why the cache had not more of the last prompt", _alone(ShowWhy())),
        "/clear": _Rule("/clear", "clear the screen", _alone(ClearScreen())),
    }
)

COMMANDS: tuple[str, ...] = tuple(_RULES)
"""Every command's word."""
HELP: Mapping[str, str] = MappingProxyType(
    {rule.usage: rule.help for rule in _RULES.values()} | {"//text": 'send "/text"'}
)
"""How each command is written, with what it does."""


def help_of(command: str) -> tuple[str, str]:
    """How a command is written, and what it does."""
    rule = _RULES[command]
    return rule.usage, rule.help


def parse(line: str) -> Command:
    """The command of one line, or one message of several lines."""
    if line.startswith("//"):
        return Say(line[1:])
    if not line.startswith("/"):
        return Say(line)
    word, argument = _split(line)
    rule = _RULES.get(word)
    if rule is None:
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        meant = f"{near[0]} is one, " if near else ""
        return Misunderstood(
            f"no command {_shortened(word)}, nothing was sent; {meant}/help lists them "
            "(// sends a message that begins with /)"
        )
    try:
        return rule.read(argument)
    except _Wrong as wrong:
        return Misunderstood(
            f"{word} {wrong}, nothing was sent (/{word} … sends a message that begins with {word})"
        )


def parse_edited(line: str, turn: int) -> Edit | Misunderstood:
    """What a line means as the new text of a user turn: a text, but never a command."""
    command = parse(line)
    if isinstance(command, Say):
        return Edit(turn, command.text)
    word, _ = _split(line)
    if isinstance(command, Misunderstood) and word not in _RULES:
        return command
    return Misunderstood(
        f"{word} is no new text, nothing was sent; Ctrl-D at an empty line leaves the edit "
        f"(/{word} … sends a text that begins with {word})"
    )


def line_of(text: str) -> str:
    """The line that is read as this message."""
    return f"/{text}" if text.startswith("/") else text


def _split(line: str) -> tuple[str, str]:
    """The first word, and the rest without the space around it."""
    word, _, argument = line.partition(" ")
    return word.rstrip(), argument.strip()


def _shortened(word: str, limit: int = 40) -> str:
    return word if len(word) <= limit else f"{word[:limit]}…"
