"""Commands: matched exactly, and never sent by mistake."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.commands import (
    HELP,
    Command,
    Edit,
    Leave,
    Misunderstood,
    Regenerate,
    Say,
    ShowHelp,
    ShowStats,
    StartNew,
    Undo,
    line_of,
    parse,
    parse_edited,
)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("hello", Say("hello")),
        (" /exit", Say(" /exit")),
        ("  two  spaces ", Say("  two  spaces ")),
        ("//exit", Say("/exit")),
        ("///", Say("//")),
        ("a\n/exit", Say("a\n/exit")),
        ("/help", ShowHelp()),
        ("/exit", Leave()),
        ("/exit  ", Leave()),
        ("/new", StartNew()),
        ("/regen", Regenerate()),
        ("/undo", Undo()),
        ("/stats", ShowStats()),
        ("/edit", Edit(None, None)),
        ("/edit 3", Edit(3, None)),
        ("/edit 12 new  text ", Edit(12, "new  text")),
        ("/edit 1 two\nlines", Edit(1, "two\nlines")),
    ],
)
def test_parse(line: str, command: Command) -> None:
    """Each form has one meaning."""
    assert parse(line) == command


@pytest.mark.parametrize(
    "line",
    [
        "/exitfoo",
        "/Exit",
        "/",
        "/ exit",
        "/quit",
        "/usr/bin/env",
        "/exit now",
        "/help\nme",
        "/*\n*/",
        "/edit x",
        "/edit 0",
        "/edit -1",
        "/edit ٣ text",
        "/edit 1.5",
        "/edit " + "9" * 5000,
    ],
)
def test_not_sent(line: str) -> None:
    """What looks like a command and is none is not sent, and the reason says something short."""
    command = parse(line)
    assert isinstance(command, Misunderstood)
    assert 20 < len(command.reason) < 250


def test_unknown_command_lists_the_known() -> None:
    """The reason names every command, and how to send the text after all."""
    command = parse("/bogus")
    assert isinstance(command, Misunderstood)
    assert all(name in command.reason for name in HELP)


def test_help_names_parse() -> None:
    """The help lists what parse understands."""
    for name in HELP:
        assert not isinstance(parse(name.replace(" N", " 1")), Misunderstood)


@pytest.mark.parametrize("line", ["/exit", "/exit now", "/regen", "/edit 2 two", "/bogus", "/"])
def test_no_command_is_an_edited_text(line: str) -> None:
    """What is or looks like a command is refused as a message's new text."""
    refused = parse_edited(line, 1)
    assert isinstance(refused, Misunderstood)
    assert "nothing was sent" in refused.reason


@pytest.mark.parametrize("text", ["hello", "/exit", "//exit", "a\n/exit", " /"])
def test_every_text_has_its_line(text: str) -> None:
    """The line of a text is read as that text, at the prompt and in an edit."""
    assert parse(line_of(text)) == Say(text)
    assert parse_edited(line_of(text), 3) == Edit(3, text)
