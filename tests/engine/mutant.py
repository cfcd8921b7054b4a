"""`Mutant`: a seeded bug of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from radixchat.engine.engine import Engine
from radixchat.tests.seeded_bug import SeededBug


@dataclass(frozen=True, slots=True)
class Mutant(SeededBug):
    """A bug of engine/<module>.py."""

    PACKAGE: ClassVar[str] = "engine"
    ROOT: ClassVar[str] = "engine"

    def load(self) -> type[Engine]:
        """The class `Engine` with this bug; LookupError if it does not apply."""
        return cast("type[Engine]", self.load_root().Engine)
