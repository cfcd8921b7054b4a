"""A text in an editor: which one, in what file, and what is said where it fails."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from pathlib import Path

import pytest

from radixchat.chat_cli.editor import EditorFailed, edited


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files are made; no editor is chosen."""
    place = tmp_path / "files"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    return place


def choose(monkeypatch: pytest.MonkeyPatch, script: str, variable: str = "EDITOR") -> None:
    """Have the editor do this to the file "$0"."""
    monkeypatch.setenv(variable, f"sh -c {shlex.quote(script)}")


def test_what_the_editor_makes(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The new text, without the newline that it ends with; the file was the user's only."""
    choose(monkeypatch, 'printf "%s %s\n" "$(cat "$0")" "$(stat -c %a "$0")" > "$0"')
    assert asyncio.run(edited("Größe")) == "Größe 600"
    assert list(folder.iterdir()) == []


def test_visual_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere; a variable without a value is none."""
    choose(monkeypatch, 'printf visual > "$0"', "VISUAL")
    choose(monkeypatch, 'printf editor > "$0"')
    assert asyncio.run(edited("")) == "visual"
    monkeypatch.setenv("VISUAL", "")
    assert asyncio.run(edited("")) == "editor"


@pytest.mark.parametrize("text", ["", "one", "one\n", "one\n\ntwo\n\n", "a\u2028b\x1b[2J"])
def test_a_text_that_is_left_alone(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Comes back as it was."""
    monkeypatch.setenv("EDITOR", "true")
    assert asyncio.run(edited(text)) == text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", r"sh failed \(exit code 3\); the text is as it was"),
        ("kill -KILL $$", r"sh failed \(signal 9\)"),
        ("printf '\\377' > \"$0\"", "left a text that is not UTF-8"),
        ('rm "$0"', "the text cannot be edited: .*No such file"),
    ],
)
def test_an_editor_that_fails(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, said: str
) -> None:
    """There is no new text, and no file is left."""
    choose(monkeypatch, script)
    with pytest.raises(EditorFailed, match=said):
        asyncio.run(edited("text"))
    assert list(folder.iterdir()) == []


def test_no_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that is missing is told by its name; where there is none, how to choose one."""
    monkeypatch.setenv("EDITOR", "missing-editor --wait")
    with pytest.raises(EditorFailed, match="the editor missing-editor of EDITOR cannot be found"):
        asyncio.run(edited("text"))
    monkeypatch.delenv("EDITOR")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EditorFailed, match="there is no editor; EDITOR says which one"):
        asyncio.run(edited("text"))


def test_no_place_for_a_file(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Says so."""
    monkeypatch.setenv("EDITOR", "true")
    folder.rmdir()
    with pytest.raises(EditorFailed, match="no file can be made for the editor"):
        asyncio.run(edited("text"))
