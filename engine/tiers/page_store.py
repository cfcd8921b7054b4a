"""`PageStore`: pages by name, somewhere slower than memory. The protocol, and its value.

Standard library only. Knows no page's inside and no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page to be kept: its name, whose it is, and its bytes."""

    digest: bytes
    namespace: bytes
    data: memoryview


class PageStore(Protocol):
    """Called from several threads at once. Nothing here raises: what cannot be had is a miss.

    problem: why nothing can be written or read any more; None while it can.
    """

    page_bytes: int
    problem: str | None

    def get(
        self,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None = None,
    ) -> int:
        """Read pages, whole and valid ones only; how many of the first were.

        It stops at the first that is missing, damaged, or late (time.monotonic).
        """

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """Keep pages; how many of the first are durable when it returns."""

    def exists(self, digests: Sequence[bytes]) -> list[bool]:
        """Which of them could be read."""

    def delete(self, digests: Sequence[bytes]) -> int:
        """Forget pages; how many there were. Nobody reads them any more when it returns."""

    def forget(self, namespace: bytes | None) -> int:
        """Forget all pages of a namespace, or of all; how many there were."""

    def known(self) -> Iterator[bytes]:
        """The names of all pages."""

    def news(self) -> tuple[list[bytes], list[bytes]]:
        """The names that came and went since the last call, by whomever; quick."""

    def close(self) -> None:
        """No call comes after this."""
