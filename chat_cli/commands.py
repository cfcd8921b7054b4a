"""What a line of input asks for: one frozen value per command. Knows no terminal, and no grammar.

`command_line.py` reads them; who performs which is `dialogue.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """Answer the last message again, so often; one of several answers can be chosen."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with an answer that was cut short."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back the last turn."""


@dataclass(frozen=True, slots=True)
class StartNew:
    """Begin another conversation."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Go on in another conversation with the same history."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class ListConversations:
    """Show the conversations used last."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Go on in another conversation, by name or id; or in the branch "#N" that the tree shows."""

    name: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the conversation a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a conversation, by name or id; None: this one."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class SetSystem:
    """Have the conversation begin with another system message; None: show it."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """Find messages in all conversations."""

    words: str


@dataclass(frozen=True, slots=True)
class Save:
    """Give the conversation a name, if there is one, and say how to come back to it."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """Write the conversation out: "markdown", its path, or "json", all; None: to the screen."""

    kind: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTree:
    """Draw the conversation's branches."""


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """Go on with another model; None: show which one answers."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """Change what answers are asked for; without a value show it, without a name show all."""

    name: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ToggleMultiline:
    """Let Enter begin a new line instead of sending, or send again."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the last answer; code: only its code block of that number, counted from 1."""

    code: int | None = None


@dataclass(frozen=True, slots=True)
class Attach:
    """Put a text file before the next message."""

    file: str


@dataclass(frozen=True, slots=True)
class Paste:
    """Put what the clipboard has into the input."""


@dataclass(frozen=True, slots=True)
class ShowStats:
    """Show the engine's figures."""


@dataclass(frozen=True, slots=True)
class ShowCache:
    """Show what of the conversation is cached, and what an edit of each turn would cost."""


@dataclass(frozen=True, slots=True)
class ShowWhy:
    """Explain why the cache had not more of the last prompt."""


@dataclass(frozen=True, slots=True)
class ClearScreen:
    """Clear the screen; the conversation stays."""


@dataclass(frozen=True, slots=True)
class ShowHelp:
    """Show the commands, or one of them."""

    command: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """End the chat."""


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """Looks like a command and is none, or lacks what it needs; nothing is sent."""

    reason: str


TurnCommand = Say | Edit | Regenerate | Continue
ConversationCommand = (
    Undo
    | StartNew
    | Fork
    | ListConversations
    | Switch
    | Rename
    | Delete
    | SetSystem
    | Search
    | Save
    | Export
    | ShowTree
)
SettingCommand = ChangeModel | SetOption
CacheCommand = ShowStats | ShowCache | ShowWhy
ClipboardCommand = Copy | Attach
InputCommand = ToggleMultiline | Paste | ClearScreen
"""What whoever reads the input does itself."""
Command = (
    TurnCommand
    | ConversationCommand
    | SettingCommand
    | CacheCommand
    | ClipboardCommand
    | InputCommand
    | ShowHelp
    | Leave
    | Misunderstood
)
