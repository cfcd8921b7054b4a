"""Input history: an entry is an entry, whatever is in it and whoever else writes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from radixchat.chat_cli import history
from radixchat.chat_cli.history import EntryHistory
from radixchat.chat_cli.pasted_text import PastedTexts


def entries(path: Path) -> list[str]:
    """What a new run finds, newest first."""

    async def load() -> list[str]:
        pasted = PastedTexts()
        return [pasted.text(line) async for line in EntryHistory(path, pasted, fail).load()]

    return asyncio.run(load())


def write(path: Path, texts: Iterable[str]) -> None:
    written = EntryHistory(path, PastedTexts(), fail)
    for text in texts:
        written.append_string(text)


def fail(text: str) -> None:
    raise AssertionError(text)


def test_entries_come_back(tmp_path: Path) -> None:
    """An entry of several lines comes back as one; the file is the owner's only."""
    path = tmp_path / "state" / "history"
    write(path, ["one", "two\nlines", "Größe 👩‍👩‍👧"])
    assert entries(path) == ["Größe 👩‍👩‍👧", "two\nlines", "one"]
    assert path.stat().st_mode & 0o777 == 0o600


@given(st.lists(st.text(), max_size=5))
def test_any_text(texts: list[str]) -> None:
    """Any text, any control character, comes back as it was."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history"
        write(path, texts)
        assert entries(path) == texts[::-1]


def test_torn_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    """A line that a crash tore, and what is no entry, cost nothing but themselves."""
    path = tmp_path / "history"
    path.write_bytes(b'"kept"\n\n{"no": 1}\nnoise\xff\n"torn by a cra')
    write(path, ["next"])
    assert entries(path) == ["next", "kept"]


def test_two_writers(tmp_path: Path) -> None:
    """Two terminals at once lose and mix nothing."""
    path = tmp_path / "history"
    script = (
        "import sys; from pathlib import Path\n"
        "from radixchat.chat_cli.history import EntryHistory\n"
        "from radixchat.chat_cli.pasted_text import PastedTexts\n"
        "history = EntryHistory(Path(sys.argv[1]), PastedTexts(), print)\n"
        "for n in range(200): history.append_string(f'{sys.argv[2]} {n}\\n' + 'x' * 5000)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in ("a", "b")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = [entry.split("\n")[0] for entry in entries(path)]
    for name in ("a", "b"):
        own = [entry for entry in found if entry.startswith(name)]
        assert own == [f"{name} {n}" for n in reversed(range(200))]


def test_a_huge_file_is_read_from_its_end(tmp_path: Path) -> None:
    """Start-up reads a bounded part of the file: the newest entries."""
    path = tmp_path / "history"
    write(path, [f"{n} {'x' * 100_000}" for n in range(60)])
    found = entries(path)
    assert found[0].startswith("59 ")
    assert 30 < len(found) <= history.READ_LIMIT // 100_000


def test_what_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    """Without a place for the file the entries of this run are still there."""
    (tmp_path / "state").write_text("a file where the folder should be")
    warnings: list[str] = []
    kept = EntryHistory(tmp_path / "state" / "history", PastedTexts(), warnings.append)
    kept.append_string("one")
    kept.append_string("two")
    assert kept.get_strings() == ["one", "two"]
    assert len(warnings) == 1
    place = tmp_path / "state" / "history"
    assert warnings[0].startswith("the input history cannot be written: ")
    assert warnings[0].endswith(f": {place}")
    assert "Errno" not in warnings[0]


def test_what_was_pasted_is_known_again(tmp_path: Path) -> None:
    """A huge text comes back as the one character that stands for it, between what was typed."""
    path = tmp_path / "history"
    huge = "line\n" * 30
    pasted = PastedTexts()
    EntryHistory(path, pasted, fail).append_string(f"see {pasted.paste(huge)}, thanks")
    assert entries(path) == [f"see {huge}, thanks"]

    async def lines() -> list[str]:
        again = PastedTexts()
        return [again.label(line[4]) or "" async for line in EntryHistory(path, again, fail).load()]

    assert asyncio.run(lines()) == ["[pasted 30 lines]"]


def test_an_entry_that_is_too_long(tmp_path: Path) -> None:
    """It is there in this run, is said to be, and pushes no other out of the file."""
    path = tmp_path / "history"
    warnings: list[str] = []
    kept = EntryHistory(path, PastedTexts(), warnings.append)
    kept.append_string("short")
    kept.append_string("x" * history.WRITE_LIMIT)
    assert len(kept.get_strings()) == 2
    assert entries(path) == ["short"]
    assert warnings == ["so long a text is kept in the input history of this run only"]


def test_foreign_entries_are_skipped(tmp_path: Path) -> None:
    """What is no entry, however it is nested."""
    path = tmp_path / "history"
    path.write_text('["a", {"pasted": 1}]\n[]\n["a", ["b"]]\n{"pasted": "a"}\n' + "[" * 5000 + "\n")
    assert entries(path) == ["a"]
