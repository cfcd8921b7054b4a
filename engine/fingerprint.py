"""A cheap identity for a file of weights: its size, its header, and samples of every tensor.

Hashing a whole checkpoint would cost seconds a gigabyte at every start. Two fine-tunings of one
model may have equal headers, so a few kilobytes of each tensor go in as well. It tells revisions
apart; it does not prove that a file is intact. Knows no format: the caller knows the spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

SAMPLE_BYTES = 1024


def file_fingerprint(path: Path, header_bytes: int, spans: Iterable[tuple[int, int]]) -> bytes:
    """SHA-256 over one file; spans: start and end of each tensor, in bytes from the file's start.

    A kilobyte each from the start, the middle and the end of a span. Raises OSError.
    """
    digest = hashlib.sha256(path.stat().st_size.to_bytes(8, "little"))
    with path.open("rb") as file:
        digest.update(file.read(header_bytes))
        for start, end in spans:
            last = max(start, end - SAMPLE_BYTES)
            for place in (start, (start + last) // 2, last):
                file.seek(place)
                digest.update(file.read(min(SAMPLE_BYTES, end - place)))
    return digest.digest()
