"""`Seal`: what a page's bytes become on the disk, and its checksum. With a key they are secret.

AES-256-GCM of the `cryptography` package: nonce, ciphertext, tag; the page's name is authenticated
with it, so that no page can be passed off as another. Knows no file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import google_crc32c
import numpy as np

from radixchat.engine.errors import ConfigError

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16


class Seal:
    """Encrypts with a key, and does nothing without one."""

    def __init__(self, key: bytes | None) -> None:
        """Raises ConfigError: the key has another length, or `cryptography` is missing."""
        self.key_id = ""
        self.overhead = 0
        self._spare: list[bytearray] = []
        self._cipher = None
        if key is None:
            return
        if len(key) != KEY_BYTES:
            raise ConfigError(f"the disk cache's key has {len(key)} bytes, and needs {KEY_BYTES}")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ConfigError(
                "an encrypted disk cache needs a package: pip install 'radixchat[encryption]'"
            ) from error
        self._cipher = AESGCM(key)
        self.key_id = hashlib.blake2b(b"radixchat pages", key=key, digest_size=8).hexdigest()
        self.overhead = NONCE_BYTES + TAG_BYTES

    @contextmanager
    def closed(self, data: memoryview, name: bytes) -> Iterator[memoryview]:
        """What goes to the disk for a page of that name: without a key, the same memory."""
        if self._cipher is None:
            yield data
            return
        with self._buffer(data.nbytes) as buffer:
            # Random nonces of 96 bits: one key is good for 2**32 pages, petabytes of them.
            buffer[:NONCE_BYTES] = nonce = os.urandom(NONCE_BYTES)
            self._cipher.encrypt_into(nonce, data, name, buffer[NONCE_BYTES:])
            yield buffer

    @contextmanager
    def room(self, into: memoryview) -> Iterator[memoryview]:
        """Where to read what is on the disk, so that `open` gets it into `into`."""
        if self._cipher is None:
            yield into
            return
        with self._buffer(into.nbytes) as buffer:
            yield buffer

    def open(self, stored: memoryview, into: memoryview, name: bytes) -> bool:
        """Whether `into` has the page now; it has not if this key did not close it so."""
        if self._cipher is None:
            return True
        from cryptography.exceptions import InvalidTag

        try:
            self._cipher.decrypt_into(stored[:NONCE_BYTES], stored[NONCE_BYTES:], name, into)
        except InvalidTag:
            return False
        return True

    @contextmanager
    def _buffer(self, num_bytes: int) -> Iterator[memoryview]:
        """Kept for the next: new memory of that size costs more than the cipher does."""
        buffer = self._spare.pop() if self._spare else bytearray(num_bytes + self.overhead)
        try:
            yield memoryview(buffer)
        finally:
            self._spare.append(buffer)


def checksum(name: bytes, stored: memoryview) -> int:
    """CRC32C over a page's name and its bytes on the disk (10 GB/s, no copy)."""
    array = np.frombuffer(stored, np.uint8)  # the package takes no writable memoryview
    return int(google_crc32c.extend(google_crc32c.value(name), array))
