"""The file of a trace: its lines as JSON objects, streamed, from the start as often as asked.

Owns compression (told by the first bytes, not by the name), standard input, and the lines that
are no JSON object. Knows no field. Memory holds one line at a time.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, NoReturn

from radixchat.bench.trace_item import TraceError
from radixchat.bench.trace_line import TraceLine, shown

# A prompt of a million ids is 7 MB; more than this is a file without line ends.
MAX_LINE = 64 * 2**20
READ_BYTES = 2**16  # as much is read between two reports of progress, too

Progress = Callable[[int, int], None]

_FOREIGN = {
    b"\xff\xfe": "UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
    b"\x28\xb5\x2f\xfd": "zstd; unpack it (zstd -d)",
    b"PK\x03\x04": "a zip archive; unpack it (unzip)",
    b"PAR1": "Parquet; convert it to one JSON object per line",
}


class TraceFile:
    """A file that can be read again and again; `name` is how it was given."""

    def __init__(self, name: str) -> None:
        """Find it. Raises TraceError.

        name: a path, or "-" for standard input. What can be read only once (standard input, a
        pipe) is copied to a temporary file, which goes when this object does.
        """
        self.name = "<stdin>" if name == "-" else name
        self._first_seen: tuple[int, int, int] | None = None
        try:
            if name == "-":
                if sys.stdin is None:
                    raise TraceError(self.name, 0, "cannot be read: it is closed")
                self._path = self._spool(sys.stdin.buffer)
            elif S_ISREG(Path(name).stat().st_mode):
                self._path = Path(name)
            else:
                with Path(name).open("rb") as pipe:
                    self._path = self._spool(pipe)
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise TraceError(self.name, 0, f"cannot be read: {reason}") from error

    def lines(self, progress: Progress | None = None) -> Iterator[TraceLine]:
        """The lines that are not blank, in order. Raises TraceError at one that is damaged, and
        where the file is no longer what it was when it was read first.

        progress: called with the bytes read so far and the file's size (both as compressed), at
        the start, every 64 KiB and at the end.
        """
        try:
            file = self._path.open("rb", buffering=0)
        except OSError as error:
            raise TraceError(self.name, 0, f"cannot be read: {error.strerror}") from error
        with file, self._unpacked(file) as stream:
            self._check_unchanged(file)
            total, told = os.fstat(file.fileno()).st_size, 0
            if progress is not None:
                progress(0, total)
            for line in self._parsed(stream):
                if progress is not None and (done := file.tell()) - told >= READ_BYTES:
                    progress(done, total)
                    told = done
                yield line
            self._check_unchanged(file)
            if progress is not None:
                progress(total, total)

    def _check_unchanged(self, file: io.FileIO) -> None:
        """Refuse to mix two states of a file that is still written, a live log say."""
        found = os.fstat(file.fileno())
        state = found.st_ino, found.st_size, found.st_mtime_ns
        self._first_seen = self._first_seen or state
        if state != self._first_seen:
            raise TraceError(self.name, 0, "has changed while it was read; give a copy of it")

    def _spool(self, source: BinaryIO) -> Path:
        with tempfile.NamedTemporaryFile(prefix="radixchat-trace-", delete=False) as copy:
            path = Path(copy.name)
            weakref.finalize(self, path.unlink, missing_ok=True)
            shutil.copyfileobj(source, copy)
        return path

    def _unpacked(self, file: io.FileIO) -> io.BufferedIOBase:
        head = file.read(6)
        file.seek(0)
        for magic, what in _FOREIGN.items():
            if head.startswith(magic):
                raise TraceError(self.name, 0, f"is {what}")
        if head.startswith(b"\xfd7zXZ\0"):
            return lzma.open(file)
        if head.startswith(b"\x1f\x8b"):
            return gzip.open(file)
        if head.startswith(b"BZh"):
            return bz2.open(file)
        return io.BufferedReader(file, READ_BYTES)

    def _parsed(self, stream: io.BufferedIOBase) -> Iterator[TraceLine]:
        number = 0
        while True:
            number += 1
            try:
                raw = stream.readline(MAX_LINE + 1)
            except EOFError as error:
                raise TraceError(
                    self.name, number, "the compressed file ends too early; fetch it again"
                ) from error
            except (OSError, lzma.LZMAError, zlib.error) as error:
                raise TraceError(self.name, number, f"cannot be read: {error}") from error
            if not raw:
                return
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield self._line(number, raw)

    def _line(self, number: int, raw: bytes) -> TraceLine:
        if len(raw) > MAX_LINE:
            raise TraceError(
                self.name, number, f"longer than {MAX_LINE} bytes; one JSON object per line"
            )
        try:
            fields = json.loads(raw.decode().rstrip("\r\n"), parse_constant=_no_number)
        except UnicodeDecodeError as error:
            reason = f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1}"
            raise TraceError(self.name, number, reason) from error
        except json.JSONDecodeError as error:
            hint = "; a JSON array: jq -c '.[]' makes lines of it" if raw[:1] == b"[" else ""
            reason = f"not JSON: {error.msg}, column {error.colno}{hint}"
            raise TraceError(self.name, number, reason) from error
        except (ValueError, RecursionError) as error:  # NaN, 5,000 digits, 5,000 brackets
            raise TraceError(self.name, number, f"not JSON that can be read: {error}") from error
        if not isinstance(fields, dict):
            hint = "; jq -c '.[]' makes lines of an array" if isinstance(fields, list) else ""
            reason = f"is {shown(fields)}; one JSON object per line is needed{hint}"
            raise TraceError(self.name, number, reason)
        return TraceLine(self.name, number, fields)


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
