"""Files of traces: packed or not, damaged or not; always lines, or an error that helps."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from radixchat.bench.trace_file import MAX_LINE, TraceFile
from radixchat.bench.trace_item import TraceError

TEXT = b'{"n": 1}\n\n{"n": 2}\n{"n": 3}'
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def read(path: Path) -> list[tuple[int, object]]:
    return [(line.number, line.fields["n"]) for line in TraceFile(str(path)).lines()]


def reason(path: Path, content: bytes) -> str:
    """What is said of a file with that content, less its name."""
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_packed_files_are_known_by_their_first_bytes(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Whatever their name; blank lines count but are nothing; the last needs no line end."""
    (tmp_path / "trace.dat").write_bytes(pack(TEXT))
    assert read(tmp_path / "trace.dat") == [(1, 1), (3, 2), (4, 3)]


def test_what_other_systems_add_is_no_damage(tmp_path: Path) -> None:
    """A byte order mark, and line ends of two characters."""
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n"))
    assert read(tmp_path / "t") == [(1, 1), (3, 2), (4, 3)]


@pytest.mark.parametrize("kind", ["gzip", "xz", "bzip2"])
def test_a_packed_file_that_is_cut_off_is_told(tmp_path: Path, kind: str) -> None:
    """With the line that could not be read whole."""
    packed = PACKERS[kind](b"".join(b'{"n": %d}\n' % (n**5) for n in range(20_000)))
    said = reason(tmp_path / "t", packed[: len(packed) // 2])
    assert re.fullmatch(r":\d+: the compressed file ends too early; fetch it again", said)
    if kind != "bzip2":  # which unpacks a whole block of 900 kB at once
        assert int(said.split(":")[1]) > 1000


@pytest.mark.parametrize("kind", ["gzip", "xz", "bzip2"])
def test_a_packed_file_with_a_wrong_byte_is_told(tmp_path: Path, kind: str) -> None:
    """Whatever its library raises."""
    packed = bytearray(PACKERS[kind](TEXT * 100))
    packed[-30] ^= 0xFF
    assert re.match(
        r":\d+: (cannot be read|the compressed file ends|not UTF-8|not JSON)",
        reason(tmp_path / "t", bytes(packed)),
    )


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (b'{"n": ', ":2: not JSON: Expecting value, column 7"),
        (b"nonsense", ":2: not JSON: Expecting value, column 1"),
        (b'{"n": NaN}', ":2: not JSON that can be read: NaN is no number"),
        (b'{"n": -Infinity}', ":2: not JSON that can be read: -Infinity is no number"),
        (b'{"n": "\xff"}', ":2: not UTF-8: byte 0xff at position 8"),
        (b"[1, 2]", ":2: is a list of 2; one JSON object per line is needed; jq -c '.[]'"),
        (b"7", ":2: is 7; one JSON object per line is needed"),
        (b"null", ":2: is missing; one JSON object"),
        (b'{"n": 1} {"n": 2}', ":2: not JSON: Extra data, column 10"),
        (b"[" * 100_000, ":2: not JSON that can be read: "),
        (b'{"n": ' + b"9" * 5000 + b"}", ":2: not JSON that can be read: Exceeds the limit"),
        (b"[", ":2: not JSON: Expecting value, column 2; a JSON array: jq -c '.[]' makes"),
        (b"\0" * 9, ":2: not JSON: Expecting value, column 1"),
    ],
)
def test_a_damaged_line_is_told_by_its_number(tmp_path: Path, damaged: bytes, said: str) -> None:
    """With what is wrong, and where."""
    assert reason(tmp_path / "t", b'{"n": 1}\n' + damaged + b"\n").startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}".encode("utf-16"), ": is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
        (b"\x28\xb5\x2f\xfd rest", ": is zstd; unpack it (zstd -d)"),
        (b"PK\x03\x04 rest", ": is a zip archive; unpack it (unzip)"),
        (b"PAR1 rest", ": is Parquet; convert it to one JSON object per line"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path: Path, content: bytes, said: str) -> None:
    """Instead of a complaint about their first byte."""
    assert reason(tmp_path / "t", content) == said


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path) -> None:
    """A sparse file of zeros, longer than any line may be."""
    with (tmp_path / "t").open("wb") as file:
        file.truncate(MAX_LINE + 10)
    with pytest.raises(TraceError, match=f":1: longer than {MAX_LINE} bytes"):
        read(tmp_path / "t")


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing", "No such file"), ("", "Is a directory"), ("a\0b", "embedded null")],
)
def test_what_cannot_be_opened_is_told(tmp_path: Path, name: str, said: str) -> None:
    """A name that leads nowhere, a folder, and what no name can be."""
    with pytest.raises(TraceError, match=f"cannot be read: {said}"):
        TraceFile(str(tmp_path / name) if name else str(tmp_path))


def test_a_file_that_goes_away_is_told(tmp_path: Path) -> None:
    """Between two readings."""
    (tmp_path / "t").write_bytes(TEXT)
    file = TraceFile(str(tmp_path / "t"))
    (tmp_path / "t").unlink()
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        next(file.lines())


@pytest.mark.parametrize("between", [True, False], ids=["between", "during"])
def test_a_file_that_is_still_written_is_told(tmp_path: Path, between: bool) -> None:
    """Between two readings or during one: rates of two states of a log would mean nothing."""
    (tmp_path / "t").write_bytes(TEXT)
    file = TraceFile(str(tmp_path / "t"))
    lines = file.lines()
    assert len([next(lines), *(lines if between else ())]) == (3 if between else 1)
    with (tmp_path / "t").open("ab") as log:
        log.write(b'\n{"n": 4}\n')
    with pytest.raises(TraceError, match="has changed while it was read"):
        list(file.lines() if between else lines)


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has none where a shell closed it."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TraceError, match="<stdin>: cannot be read: it is closed"):
        TraceFile("-")
