"""Files that a chat writes: new ones, for their owner, whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from radixchat.chat_cli.written_file import write_new_file
from radixchat.server.protocol import RadixChatError


def test_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text as it is, in a file that only its owner reads; ~ is the home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert write_new_file("~/a b.md", "ü\r\n👋\n") == tmp_path / "a b.md"
    assert (tmp_path / "a b.md").read_bytes() == "ü\r\n👋\n".encode()
    assert stat.S_IMODE((tmp_path / "a b.md").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("there", "exists already"),
        ("link", "exists already"),
        ("..", "exists already"),
        (".", "is a folder; name a new file in it"),
        ("no/where", "folder is missing"),
        ("there/below", "cannot be written: Not a directory"),
        ("x" * 300, "cannot be written: File name too long"),
        ("a\0b", "cannot be the name of a file"),
        ("~nobody-of-this-name/x", "cannot be the name of a file"),
    ],
)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    """What cannot be written says why; nothing is overwritten, and nothing left behind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("precious")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(RadixChatError, match=said):
        write_new_file(name, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]
    assert (tmp_path / "there").read_text() == "precious"
