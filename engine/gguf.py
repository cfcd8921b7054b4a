"""A GGUF file: its metadata as plain values, its tensor table, and tensor bytes as they lie.

Owns the container: magic, fields, table, bounds. Knows no architecture, no tokenizer, no torch,
and does not unpack a block (`engine/block_formats.py` does).

The header is parsed here and not by `gguf.GGUFReader`: measured on the default model, whose
vocabulary and merges are 98,052 strings, the reader needs 1.65-1.86 s (five numpy objects a
string), this parser 0.02-0.05 s. The reader also raises whatever numpy raises on damaged files.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.fingerprint import file_fingerprint
from radixchat.engine.gguf_kinds import (
    ARRAY_TYPE,
    BLOCK_KINDS,
    DEFAULT_ALIGNMENT,
    SCALAR_TYPES,
    STRING_TYPE,
)

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
# Longer than any chat template seen (the longest of the well-known ones is 22 kB); it keeps a
# damaged length from allocating the size of the file.
MAX_STRING_BYTES = 16 << 20

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """Where one tensor lies. shape: row-major, [out_features, in_features] for a matrix."""

    name: str
    kind: str  # the name of its kind of blocks: "F32", "Q4_1", ...
    shape: tuple[int, ...]
    offset: int  # from the start of the file, in bytes
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """The header of one file: fields are str, int, float, bool, or a list of one of these."""

    path: Path
    num_bytes: int
    header_bytes: int
    fields: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]

    def fingerprint(self) -> str:
        """The same for the same weights and metadata, wherever the file lies."""
        spans = [
            (tensor.offset, tensor.offset + tensor.num_bytes) for tensor in self.tensors.values()
        ]
        return file_fingerprint(self.path, self.header_bytes, spans).hex()


def read_gguf(path: Path) -> GGUFFile:
    """Read the header and check that every tensor lies inside the file.

    Raises ModelLoadError for a file that is missing, not GGUF, cut off or damaged.
    """
    try:
        if path.is_fifo():  # it would be waited for, for ever
            raise ModelLoadError(f"{path} is a pipe, not a file")
        with path.open("rb", buffering=1 << 20) as file:
            return _Header(path, file).read()
    except OSError as error:
        raise ModelLoadError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelLoadError(f"{path} is damaged: {error}; fetch the file again") from error


class _Header:
    """One pass over the head of a file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._size = path.stat().st_size

    def read(self) -> GGUFFile:
        magic = self._file.read(4)
        if magic != MAGIC:
            raise ModelLoadError(f"{self._path} is not a GGUF file: it begins with {magic!r}")
        version = self._number("<I")
        if version not in VERSIONS:
            order = " (or a big-endian file)" if version & 0xFFFF == 0 else ""
            raise ModelLoadError(
                f"{self._path} is GGUF version {version}{order}; supported: 2 and 3, little-endian"
            )
        num_tensors, num_fields = self._number("<Q"), self._number("<Q")
        fields: dict[str, Any] = {}
        for _ in range(num_fields):
            name = self._string()
            if name in fields:
                self._damaged(f"the field {name!r} is there twice")
            fields[name] = self._value(self._number("<I"))
        entries = self._entries(num_tensors)
        header_bytes = self._file.tell()
        start = header_bytes + -header_bytes % self._alignment(fields)
        tensors = {}
        for name, kind, shape, offset in entries:
            tensors[name] = self._tensor(name, kind, shape, start + offset)
        return GGUFFile(self._path, self._size, header_bytes, fields, tensors)

    def _entries(self, count: int) -> list[tuple[str, int, tuple[int, ...], int]]:
        entries = []
        for _ in range(count):
            name = self._string()
            num_dimensions = self._number("<I")
            if not 1 <= num_dimensions <= MAX_DIMENSIONS:
                self._damaged(f"tensor {name!r} has {num_dimensions} dimensions")
            shape = struct.unpack(f"<{num_dimensions}Q", self._take(8 * num_dimensions))
            kind, offset = self._number("<I"), self._number("<Q")
            entries.append((name, kind, shape[::-1], offset))
        if len({entry[0] for entry in entries}) != count:
            self._damaged("two tensors have the same name")
        return entries

    def _tensor(self, name: str, number: int, shape: tuple[int, ...], offset: int) -> GGUFTensor:
        kind = BLOCK_KINDS.get(number)
        if kind is None:
            raise ModelLoadError(f"{self._path}: tensor {name!r} has the unknown type {number}")
        if min(shape) < 1 or shape[-1] % kind.weights:
            self._damaged(f"tensor {name!r} of type {kind.name} has the shape {list(shape)}")
        num_bytes = math.prod(shape) // kind.weights * kind.num_bytes
        if offset + num_bytes > self._size:
            raise ModelLoadError(
                f"{self._path} is cut off: tensor {name!r} ends at byte {offset + num_bytes}, "
                f"the file at {self._size}; fetch the file again"
            )
        return GGUFTensor(name, kind.name, shape, offset, num_bytes)

    def _alignment(self, fields: Mapping[str, Any]) -> int:
        alignment = fields.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            self._damaged(f"general.alignment is {alignment!r}")
        return int(alignment)

    def _value(self, kind: int) -> Any:
        if kind == STRING_TYPE:
            return self._string()
        if kind == ARRAY_TYPE:
            return self._array()
        return self._scalars(kind, 1)[0]

    def _array(self) -> list[Any]:
        kind, count = self._number("<I"), self._number("<Q")
        if kind != STRING_TYPE:
            return self._scalars(kind, count)
        if count * _LENGTH.size > self._size:
            self._damaged(f"it announces a list of {count} strings")
        return [self._string() for _ in range(count)]

    def _scalars(self, kind: int, count: int) -> list[Any]:
        if kind not in SCALAR_TYPES:
            self._damaged(f"a metadata value has the unknown type {kind}")
        dtype = np.dtype(SCALAR_TYPES[kind])
        values: list[Any] = np.frombuffer(self._take(dtype.itemsize * count), dtype).tolist()
        return values

    def _string(self) -> str:
        # The hot path, once a token: no call of _take or _number, which would double the time.
        head = self._file.read(8)
        if len(head) != 8:
            self._cut_off()
        (length,) = _LENGTH.unpack(head)
        if length > MAX_STRING_BYTES:
            self._damaged(f"it announces a string of {length} bytes")
        text = self._file.read(length)
        if len(text) != length:
            self._cut_off()
        return text.decode()

    def _number(self, layout: str) -> int:
        value: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return value

    def _take(self, count: int) -> bytes:
        if count > self._size - self._file.tell():
            self._cut_off()
        return self._file.read(count)

    def _cut_off(self) -> NoReturn:
        raise ModelLoadError(
            f"{self._path} is cut off in its header at byte {self._size}; fetch the file again"
        )

    def _damaged(self, what: str) -> NoReturn:
        raise ModelLoadError(
            f"{self._path} is damaged near byte {self._file.tell()}: {what}; fetch the file again"
        )
