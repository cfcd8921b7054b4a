"""`Mutant`: a seeded bug of the index: a replacement in one module's source, and how to load it.

A mutant is loaded from its changed text under a private module name; the installed files are
not touched. Loading fails when the text to replace is not there exactly once, so that a list
of mutants cannot quietly stop meaning anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import cast

from radixchat.radix.cache import PrefixCache

_IMPORTED = re.compile(r"^from radixchat\.radix\.(\w+) import", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: `old` becomes `new` in radix/<module>.py.

    check: asserts what this bug breaks and the state machine cannot see; it takes the class.
    """

    name: str
    module: str
    old: str
    new: str
    check: Callable[[type[PrefixCache]], None] | None = None

    def load(self) -> type[PrefixCache]:
        """The class `PrefixCache` of an index with this bug; LookupError if it does not apply."""
        loaded: dict[str, ModuleType] = {}
        try:
            self._load("cache", loaded)
        finally:
            for module in loaded.values():
                del sys.modules[module.__name__]
        assert self.module in loaded, f"{self.name}: the cache does without {self.module}.py"
        return cast("type[PrefixCache]", loaded["cache"].PrefixCache)

    def changed(self) -> str:
        """The source of its module with this bug; LookupError if it does not apply."""
        source = _source(self.module)
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: not once in {self.module}.py: {self.old!r}")
        return source.replace(self.old, self.new)

    def _load(self, name: str, loaded: dict[str, ModuleType]) -> None:
        """Load a module after those that it imports."""
        source = self.changed() if name == self.module else _source(name)
        for imported in _IMPORTED.findall(source):
            if imported not in loaded:
                self._load(imported, loaded)
        package = f"radix_with_{self.name}"
        module = loaded[name] = ModuleType(f"{package}.{name}")
        sys.modules[module.__name__] = module
        source = source.replace("from radixchat.radix.", f"from {package}.")
        code = compile(source, f"<{package}.{name}>", "exec")
        exec(code, module.__dict__)  # noqa: S102 - the source is our own


def _source(name: str) -> str:
    spec = find_spec(f"radixchat.radix.{name}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")
