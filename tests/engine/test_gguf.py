"""GGUF headers: equal to the gguf package's reading, and a clear error for anything damaged."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from gguf import GGUFReader

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.gguf import read_gguf
from radixchat.engine.weights import inspect_checkpoint, load_checkpoint
from radixchat.tests.engine.tiny_checkpoints import random_model, write_gguf


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Q4_1 file of 100 kB with all kinds of metadata values."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    fields = {"general.name": "tiny", "custom.floats": [0.5, -1.5], "custom.flags": [True, False]}
    return write_gguf(path, "llama", random_model("llama"), kind="Q4_1", fields=fields)


def _changed(path: Path, content: bytes | bytearray) -> Path:
    """The content in a file of its own beside path."""
    changed = path.with_name("changed.gguf")
    changed.write_bytes(content)
    return changed


def test_fields_and_tensor_table_equal_the_gguf_packages(file: Path) -> None:
    """Every field's value and every tensor's name, type, shape and place."""
    ours, theirs = read_gguf(file), GGUFReader(file)
    fields = {k: v.contents() for k, v in theirs.fields.items() if not k.startswith("GGUF.")}
    assert dict(ours.fields) == fields
    assert ours.fields["tokenizer.ggml.tokens"][-1] == "é"
    assert [
        (t.name, t.kind, list(t.shape), t.offset, t.num_bytes) for t in ours.tensors.values()
    ] == [
        (t.name, t.tensor_type.name, t.shape[::-1].tolist(), t.data_offset, t.n_bytes)
        for t in theirs.tensors
    ]


def test_a_file_cut_off_anywhere_is_a_model_load_error(file: Path) -> None:
    """Every seventh byte of the header, then every 1,000th: no other exception, and no success."""
    content = file.read_bytes()
    header = read_gguf(file).header_bytes
    for length in [*range(0, header, 7), *range(header, len(content), 1000), len(content) - 1]:
        with pytest.raises(ModelLoadError, match=r"cut off|not a GGUF file"):
            read_gguf(_changed(file, content[:length]))


def test_a_file_cut_off_in_its_weights_says_where(file: Path) -> None:
    """The message names the tensor and both sizes."""
    content = file.read_bytes()
    cut = _changed(file, content[:-100])
    with pytest.raises(
        ModelLoadError, match=rf"ends at byte \d+, the file at {len(content) - 100}"
    ):
        load_checkpoint(cut)


def test_flipped_bytes_in_the_header_are_never_another_exception(file: Path) -> None:
    """Hundreds of random changes: each loads or is a ModelLoadError."""
    content, draw = bytearray(file.read_bytes()), random.Random(0)
    header = read_gguf(file).header_bytes
    refused = 0
    for _ in range(200):
        place, value = draw.randrange(header), draw.randrange(256)
        before, content[place] = content[place], value
        try:
            inspect_checkpoint(_changed(file, content))
        except ModelLoadError:
            refused += 1
        content[place] = before
    assert 20 < refused < 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a GGUF file: it begins with b''"),
        (b"Once upon a time there was a text file.", "not a GGUF file: it begins with b'Once'"),
        (b"FUGG" + bytes(40), "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1; supported: 2 and 3"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "cut off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "a string of 9223372036854775808 bytes"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 99), "unknown type 99"),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 8, 2**62),
            "a list of 4611686018427387904 strings",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ1sIQQIQ", 3, 1, 0, 1, b"t", 1, 32, 0, 0, 0)[:-8],
            "unknown type|ends at byte",
        ),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"t", 9), "9 dimensions"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 31, 3, 0), r"shape \[31\]"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 32, 77, 0), "unknown type 77"),
        (b"GGUF" + struct.pack("<IQQQ1sII", 3, 0, 1, 1, b"\xff", 4, 4), "invalid start byte"),
        (b"GGUF" + struct.pack("<IQQ" + "Q1sII" * 2, 3, 0, 2, *(1, b"a", 4, 4) * 2), "twice"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    """Each kind of damage with words of its own."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match=message):
        read_gguf(path)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    """What the operating system says, as a ModelLoadError with the path."""
    with pytest.raises(ModelLoadError, match="Is a directory"):
        read_gguf(tmp_path)
    with pytest.raises(ModelLoadError, match=r"nothing\.gguf: No such file"):
        read_gguf(tmp_path / "nothing.gguf")


def test_fingerprints_tell_files_apart_and_not_their_places(file: Path, tmp_path: Path) -> None:
    """One bit of one weight changes it; the path does not."""
    copy = tmp_path / "elsewhere.gguf"
    content = bytearray(file.read_bytes())
    copy.write_bytes(content)
    assert read_gguf(copy).fingerprint() == read_gguf(file).fingerprint()
    tensor = read_gguf(file).tensors["blk.1.attn_v.weight"]
    content[tensor.offset] ^= 1
    copy.write_bytes(content)
    assert read_gguf(copy).fingerprint() != read_gguf(file).fingerprint()


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "x.gguf")
    with pytest.raises(ModelLoadError, match="a pipe, not a file"):
        read_gguf(tmp_path / "x.gguf")
