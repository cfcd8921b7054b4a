"""`Mutant`: a seeded bug of the engine: a replacement in one module's source, and how to load it.

The module and those that import it are loaded from text under private names, up to `Engine`; the
rest, and with it the nouns that everybody shares, is the installed engine. Loading fails when the
text to replace is not there exactly once.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import cast

from radixchat.engine.engine import Engine

_IMPORTED = re.compile(r"^from radixchat\.engine\.(\w+) import", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: `old` becomes `new` in engine/<module>.py."""

    name: str
    module: str
    old: str
    new: str

    def load(self) -> type[Engine]:
        """The class `Engine` with this bug; LookupError if it does not apply."""
        loaded: dict[str, ModuleType] = {}
        try:
            assert self._load("engine", loaded), f"{self.name}: the engine does without it"
        finally:
            for module in loaded.values():
                del sys.modules[module.__name__]
        return cast("type[Engine]", loaded["engine"].Engine)

    def changed(self) -> str:
        """The source of its module with this bug; LookupError if it does not apply."""
        source = _source(self.module)
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: not once in {self.module}.py: {self.old!r}")
        return source.replace(self.old, self.new)

    def _load(self, name: str, loaded: dict[str, ModuleType]) -> bool:
        """Load a module of which this one is a part; whether it is."""
        if name in loaded:
            return True
        source = self.changed() if name == self.module else _source(name)
        changed = [other for other in _IMPORTED.findall(source) if self._load(other, loaded)]
        if name != self.module and not changed:
            return False
        package = f"engine_with_{self.name.replace(' ', '_')}"
        module = loaded[name] = ModuleType(f"{package}.{name}")
        sys.modules[module.__name__] = module
        for other in changed:
            source = source.replace(
                f"from radixchat.engine.{other} import", f"from {package}.{other} import"
            )
        code = compile(source, f"<{package}.{name}>", "exec")
        exec(code, module.__dict__)  # noqa: S102 - the source is our own
        return True


def _source(name: str) -> str:
    spec = find_spec(f"radixchat.engine.{name}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")
