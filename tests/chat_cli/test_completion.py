"""What Tab offers: commands and their arguments, nothing in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.command_line import COMMANDS
from radixchat.chat_cli.completion import Candidates, CommandCompletion
from radixchat.server.protocol import ConversationView


def view(number: int, title: str = "") -> ConversationView:
    return ConversationView(
        id=f"conv_{number}{'A' * 25}",
        title=title,
        system=None,
        tip=None,
        created_at=0.0,
        updated_at=0.0,
        num_turns=0,
    )


@pytest.fixture
def completion() -> CommandCompletion:
    """Three conversations, of which two have names."""
    found = CommandCompletion(("temperature", "top_p", "top_k"))
    found.conversations = [view(1, "recipes"), view(2), view(3, "read me first")]
    return found


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("/he", ("/help ",)),
        ("/s", ("/switch ", "/system ", "/set ", "/search ", "/save ", "/stats ")),
        ("/help e", ("exit", "edit", "export")),
        ("/help /reg", ("regen",)),
        ("/switch re", ("recipes", "read me first")),
        ("/switch read m", ("read me first",)),
        ("/delete conv_2", (f"conv_2{'A' * 25}",)),
        ("/switch ", ("recipes", "read me first", f"conv_2{'A' * 25}")),
        ("/set to", ("top_p ", "top_k ")),
        ("/set top_p 0", ()),
        ("/export m", ("md ",)),
        ("/copy ", ("code ",)),
        ("/undo ", ()),
        ("hello /he", ()),
        ("//he", ()),
        ("/system you\n/he", ()),
        ("", ()),
    ],
)
def test_candidates(completion: CommandCompletion, line: str, texts: tuple[str, ...]) -> None:
    """Each command's own arguments; nothing in a message, whatever it begins with."""
    assert completion.candidates(line).texts == texts


def test_a_name_that_would_be_obeyed(completion: CommandCompletion) -> None:
    """What cannot be drawn is not offered; its conversation can be named by its id."""
    completion.conversations = [view(1, "a\x1b]52;c;eA==\x07"), view(2, "abc")]
    assert completion.candidates("/switch a").texts == ("abc",)
    assert completion.candidates("/switch conv_1").texts == (f"conv_1{'A' * 25}",)


def test_every_command_is_offered(completion: CommandCompletion) -> None:
    """A slash alone offers all of them."""
    assert completion.candidates("/").texts == tuple(f"{command} " for command in COMMANDS)


@pytest.mark.parametrize("command", ["/attach ", "/attach   ", "/export md "])
def test_files(completion: CommandCompletion, tmp_path: Path, command: str) -> None:
    """Names as they begin, with spaces, of folders with a slash; hidden ones if asked for."""
    for name in ("notes one.txt", "notes two.txt", ".hidden", "bell\x07.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()

    def names(typed: str) -> list[str]:
        found = completion.candidates(f"{command}{tmp_path}/{typed}")
        assert found.start == len(command)
        assert all(text.startswith(f"{tmp_path}/") for text in found.texts)
        return [text.removeprefix(found.folder) for text in found.texts]

    assert names("") == ["folder/", "notes one.txt", "notes two.txt"]
    assert names("notes t") == ["notes two.txt"]
    assert names(".") == [".hidden"]
    assert names("missing/") == []
    assert completion.candidates(f"{command}~nobody-has-this-name/").texts == ()


def test_files_at_home(
    completion: CommandCompletion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tilde stays as it was typed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").touch()
    assert completion.candidates("/attach ~/no").texts == ("~/notes.txt",)


def test_what_is_common() -> None:
    """The beginning that all have, which Tab puts into the line."""
    assert Candidates(0, ("/switch ", "/system ")).common == "/s"
    assert Candidates(0, ("/switch ",)).common == "/switch "
    assert Candidates(0).common == ""


def test_lines_for_people() -> None:
    """In columns, without their folder; of too many the first, and how many there are more."""
    found = Candidates(0, tuple(f"f/{number:02}" for number in range(10)), "f/")
    assert found.lines(13) == ["00  04  08", "01  05  09", "02  06", "03  07"]
    assert found.lines(1) == [f"{number:02}" for number in range(10)]
    many = Candidates(0, tuple(f"{number:03}" for number in range(100)))
    assert many.lines(11)[-1] == "… and 60 more"
    assert Candidates(0, ("漢字", "ab", "c")).lines(20) == ["漢字  ab    c"]


def test_commands_are_known(completion: CommandCompletion) -> None:
    """A line that Enter sends although it begins lines otherwise."""
    assert completion.is_command("/multi")
    assert completion.is_command("/system be brief")
    assert not completion.is_command("/multi\nmore")
    assert not completion.is_command("//multi")
    assert not completion.is_command("/bogus")
    assert not completion.is_command("multi")
