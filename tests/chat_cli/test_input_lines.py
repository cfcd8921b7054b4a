"""Lines of standard input: as they arrive, of any size, from any kind of file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from radixchat.chat_cli.input_lines import MAX_BYTES, InputLines, decode
from radixchat.server.protocol import InvalidRequest


def lines_of(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a file, and the warnings."""
    warnings: list[str] = []
    fd = os.open(path, os.O_RDONLY)

    async def read() -> list[str]:
        return [line async for line in InputLines(fd, warnings.append)]

    try:
        return asyncio.run(read()), warnings
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"\xef\xbb\xbfone\n\n", ["one", ""]),
        ("a\u2028b\x0bc\x85d\n".encode(), ["a\u2028b\x0bc\x85d"]),
        (b"x" * 1_000_000 + b"\n", ["x" * 1_000_000]),
    ],
)
def test_file(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    """Only a newline ends a line; the last line needs none; a megabyte is a line too."""
    path = tmp_path / "input"
    path.write_bytes(data)
    assert lines_of(path) == (lines, [])


def test_dev_null() -> None:
    """There is nothing in it."""
    assert lines_of(Path(os.devnull)) == ([], [])


def test_not_utf8(tmp_path: Path) -> None:
    """What is not UTF-8 is replaced, and said with the line's number."""
    path = tmp_path / "input"
    path.write_bytes(b"fine\ncaf\xe9!\n")
    lines, warnings = lines_of(path)
    assert lines == ["fine", "caf\ufffd!"]
    assert len(warnings) == 1
    assert "line 2 of standard input is not UTF-8 (byte 4)" in warnings[0]


def test_a_line_comes_when_it_is_written() -> None:
    """A line is handed out before the pipe is closed, and the loop runs on meanwhile."""
    reading, writing = os.pipe()

    async def converse() -> list[str]:
        lines = InputLines(reading, pytest.fail)
        found = []
        for text in (b"one\ntw", b"o\n"):
            os.write(writing, text)
            found.append(await asyncio.wait_for(anext(lines), 30))
        waiting = asyncio.ensure_future(anext(lines, "end"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        os.close(writing)
        return [*found, await asyncio.wait_for(waiting, 30)]

    try:
        assert asyncio.run(converse()) == ["one", "two", "end"]
    finally:
        os.close(reading)


def test_decode() -> None:
    """Text without a mark is itself."""
    assert decode("Größe".encode(), "x", pytest.fail) == "Größe"


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    """Before it has taken the memory; one of just the size is read."""
    path = tmp_path / "lines"
    path.write_bytes(b"x" * MAX_BYTES + b"\nnext\n")
    assert [len(line) for line in lines_of(path)[0]] == [MAX_BYTES, 4]
    path.write_bytes(b"first\n" + b"x" * (MAX_BYTES + (1 << 20)))
    with pytest.raises(InvalidRequest, match=r"line 2 .* more than 16 MiB"):
        lines_of(path)
