"""Commands: matched exactly, and never sent by mistake."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.command_line import (
    COMMANDS,
    HELP,
    help_of,
    line_of,
    parse,
    parse_edited,
)
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
        ("/help /edit", ShowHelp("/edit")),
        ("/help edit", ShowHelp("/edit")),
        ("/regen 8", Regenerate(8)),
        ("/continue", Continue()),
        ("/fork", Fork("")),
        ("/fork an  idea", Fork("an  idea")),
        ("/list", ListConversations()),
        ("/switch my chat", Switch("my chat")),
        ("/switch #2", Switch("#2")),
        ("/rename my chat", Rename("my chat")),
        ("/delete", Delete(None)),
        ("/delete my chat", Delete("my chat")),
        ("/system", SetSystem(None)),
        ("/system Be brief.\nBe kind.", SetSystem("Be brief.\nBe kind.")),
        ("/search two words", Search("two words")),
        ("/save", Save(None)),
        ("/save name", Save("name")),
        ("/export md", Export("markdown")),
        ("/export json my file.json", Export("json", "my file.json")),
        ("/tree", ShowTree()),
        ("/model", ChangeModel(None)),
        ("/model tiny", ChangeModel("tiny")),
        ("/set", SetOption()),
        ("/set top-p", SetOption("top_p")),
        ("/set stop a b", SetOption("stop", "a b")),
        ("/multi", ToggleMultiline()),
        ("/copy", Copy()),
        ("/copy code", Copy(1)),
        ("/copy code 3", Copy(3)),
        ("/attach ~/a b.txt", Attach("~/a b.txt")),
        ("/paste", Paste()),
        ("/cache", ShowCache()),
        ("/why", ShowWhy()),
        ("/clear", ClearScreen()),
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
        "/help me",
        "/regen 0",
        "/regen 9",
        "/regen two",
        "/switch",
        "/rename ",
        "/search",
        "/attach",
        "/export",
        "/export pdf",
        "/copy that",
        "/copy code 0",
        "/new conversation",
        "/undo 2",
    ],
)
def test_not_sent(line: str) -> None:
    """What looks like a command and is none is not sent, and the reason says something short."""
    command = parse(line)
    assert isinstance(command, Misunderstood)
    assert 20 < len(command.reason) < 250


def test_an_unknown_command_is_told_its_nearest() -> None:
    """The reason names one that is written nearly so, and how to send the text after all."""
    command = parse("/exti")
    assert isinstance(command, Misunderstood)
    assert "/exit is one" in command.reason
    assert "// sends" in command.reason


def test_help_has_every_command() -> None:
    """The help lists what parse understands, and each by itself."""
    assert len(HELP) == len(COMMANDS) + 1
    for word in COMMANDS:
        usage, meaning = help_of(word)
        assert HELP[usage] == meaning
        assert usage.split()[0] == word
        reason = parse(word)
        assert not isinstance(reason, Misunderstood) or "wants" in reason.reason


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
