"""Encrypted pages: nothing readable on disk, another key is a miss that says so."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_administration import verify
from radixchat.engine.tiers.disk_folder import slot_files
from radixchat.engine.tiers.disk_seal import Seal
from radixchat.tests.engine.tiers.disk_page import PAGE, body, digest, got, has, make, pages

KEY, OTHER = bytes(range(32)), bytes(32)


def test_pages_are_encrypted(tmp_path: Path) -> None:
    """They come back as they were, and no 16 bytes of them are on the disk."""
    store = make(tmp_path / "p", key=KEY)
    assert store.put(pages(*range(8))) == 8
    assert has(store, range(8)) == list(range(8))
    store.close()
    again = make(tmp_path / "p", key=KEY)
    assert has(again, range(8)) == list(range(8))
    again.close()
    content = b"".join(path.read_bytes() for path in slot_files(tmp_path / "p")).strip(b"\0")
    for number in range(8):
        plain = body(number)
        assert not any(plain[start : start + 16] in content for start in range(0, 1024, 16))
    assert verify(tmp_path / "p").pages == 8  # needs no key


@pytest.mark.parametrize("key", [OTHER, None], ids=["another", "none"])
def test_another_key(tmp_path: Path, key: bytes | None) -> None:
    """A miss with that reason, as for who has none; both keep their own pages."""
    store = make(tmp_path / "p", key=KEY)
    store.put(pages(1))
    store.close()
    other = make(tmp_path / "p", key=key)
    assert got(other, 1) == got(other, 2) == 0
    assert other.stats().misses == {"another key": 1, "absent": 1}
    assert other.put(pages(1)) == got(other, 1) == 1
    other.close()
    store = make(tmp_path / "p", key=KEY)
    assert got(store, 1) == 1
    store.delete([digest(1)])  # it is deleted text, whatever the key
    store.close()
    other = make(tmp_path / "p", key=key)
    assert got(other, 1) == 0
    other.close()


def test_a_page_that_was_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes with a right checksum that this key did not close are not authentic."""
    store = make(tmp_path / "p", key=KEY)
    with monkeypatch.context() as patch:
        patch.setattr(Seal, "closed", lambda *_: nullcontext(memoryview(bytes(PAGE + 28))))
        store.put(pages(1))
    assert got(store, 1) == 0
    assert store.stats().misses == {"not authentic": 1}
    assert store.put(pages(1)) == got(store, 1) == 1
    store.close()


def test_a_key_that_is_none(tmp_path: Path) -> None:
    """The message says how long it is and has to be; nothing is made."""
    with pytest.raises(ConfigError, match=r"31 bytes, and needs 32"):
        make(tmp_path / "p", key=bytes(31))
    assert not (tmp_path / "p").exists()


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `cryptography` the message says what to install; without a key nobody needs it."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigError, match=r"pip install 'radixchat\[encryption\]'"):
        make(tmp_path / "p", key=KEY)
    make(tmp_path / "p").close()
