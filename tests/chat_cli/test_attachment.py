"""Text files before a message: what is taken, how it is shown, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from radixchat.chat_cli.attachment import MAX_BYTES, Attachment
from radixchat.server.protocol import InvalidRequest


def test_a_file(tmp_path: Path) -> None:
    """Its text stands between fences, under its name."""
    (tmp_path / "notes.txt").write_text("x" * 1234)
    found = Attachment.read(f"{tmp_path}/notes.txt")
    assert str(found) == "attached notes.txt (1,234 characters)"
    assert found.block == f"notes.txt:\n```\n{'x' * 1234}\n```"


@given(st.text("`~a \n>-", min_size=1, max_size=40))
def test_no_text_closes_its_fence(text: str) -> None:
    """Whatever is in it, the block is one fenced code that has exactly the text."""
    tokens = MarkdownIt("commonmark").parse(Attachment("a", text).block)
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == 1
    assert fences[0].content == (text if text.endswith("\n") else f"{text}\n")
    assert tokens[-1] is fences[0]


@pytest.mark.parametrize("written", ["a b's.txt", '"{}/a b\'s.txt"', r"{}/a\ b\'s.txt"])
def test_names_with_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """As they are, or quoted as a terminal quotes a file that is dropped on it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b's.txt").write_text("text")
    assert Attachment.read(written.format(tmp_path)).name == "a b's.txt"


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde is the home folder; of an unknown user it is refused."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").write_text("text")
    assert Attachment.read("~/notes.txt").text == "text"
    with pytest.raises(InvalidRequest, match="~nobody-has-this-name"):
        Attachment.read("~nobody-has-this-name/notes.txt")


def test_lines_and_marks(tmp_path: Path) -> None:
    """The lines of Windows are lines, and its mark at the beginning is none of the text."""
    (tmp_path / "notes.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert Attachment.read(f"{tmp_path}/notes.txt").text == "one\ntwo\n"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("latin.txt", "Größe".encode("latin-1"), "no text in UTF-8: byte 0xf6 at 2"),
        ("a.bin", b"text\0more", "no text, it has null bytes"),
        ("empty.txt", b"", "is empty"),
        ("long.txt", b"x" * (MAX_BYTES + 1), "has more than 4 MiB"),
    ],
)
def test_no_text(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    """What is no text, or too much of it, is refused with its name."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidRequest, match=f"{re.escape(str(tmp_path / name))}.*{said}"):
        Attachment.read(f"{tmp_path}/{name}")


def test_no_file(tmp_path: Path) -> None:
    """Folders, devices, FIFOs that nobody writes to, links and names that lead nowhere."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("nowhere")
    for name, said in (
        (str(tmp_path), "cannot be read: Is a directory"),
        ("/dev/zero", "cannot be read: it is no ordinary file"),
        (f"{tmp_path}/fifo", "cannot be read: it is no ordinary file"),
        (f"{tmp_path}/link", "there is no file"),
        (f"{tmp_path}/missing's.txt", "there is no file"),
        (f"{tmp_path}/nu\0l", "cannot be read: embedded null byte"),
        (f"{tmp_path}/{'x' * 300}", "cannot be read: File name too long"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            Attachment.read(name)


def test_a_name_that_would_be_obeyed(tmp_path: Path) -> None:
    """Control characters of a name reach neither the screen nor the message."""
    (tmp_path / "a\x1b[2J\n.txt").write_text("text")
    found = Attachment.read(f"{tmp_path}/a\x1b[2J\n.txt")
    assert "\x1b" not in found.block + str(found)
    assert found.block.startswith("a␛[2J .txt:\n```\n")
