"""`SeededBug`: a replacement in one module's source, and how to load what it is a part of.

The module and those that import it are loaded from text under private names, up to the one whose
class is tested; the rest, and with it the nouns that everybody shares, is the installed package.
The installed files are not touched. Loading fails when the text to replace is not there exactly
once, so that a list of bugs cannot quietly stop meaning anything.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class SeededBug:
    """One bug: `old` becomes `new` in <PACKAGE>/<module>.py; the tested class is in <ROOT>.py."""

    PACKAGE: ClassVar[str]
    ROOT: ClassVar[str]

    name: str
    module: str
    old: str
    new: str

    def load_root(self) -> ModuleType:
        """The module ROOT with this bug; LookupError if it does not apply."""
        [root] = self.modules(self.ROOT)
        assert root is not sys.modules.get(f"radixchat.{self.PACKAGE}.{self.ROOT}"), (
            f"{self.name}: {self.ROOT}.py does without it"
        )
        return root

    def modules(self, *names: str) -> list[ModuleType]:
        """These modules, with this bug where it is a part of them; LookupError as above."""
        loaded: dict[str, ModuleType] = {}
        try:
            for name in names:
                self._load(name, loaded)
        finally:
            for module in loaded.values():
                del sys.modules[module.__name__]
        return [
            loaded.get(name) or import_module(f"radixchat.{self.PACKAGE}.{name}") for name in names
        ]

    def changed(self) -> str:
        """The source of its module with this bug; LookupError if it does not apply."""
        source = self._source(self.module)
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: not once in {self.module}.py: {self.old!r}")
        return source.replace(self.old, self.new)

    def _load(self, name: str, loaded: dict[str, ModuleType]) -> bool:
        """Load a module of which the changed one is a part; whether it is."""
        if name in loaded:
            return True
        source = self.changed() if name == self.module else self._source(name)
        installed = f"radixchat.{self.PACKAGE}"
        lists = re.findall(rf"^from {installed} import ([\w, ]+)$", source, re.MULTILINE)
        imported = re.findall(rf"^from {installed}\.(\w+) import", source, re.MULTILINE)
        imported += [item.split(" as ")[0] for names in lists for item in names.split(", ")]
        changed = [other for other in imported if self._load(other, loaded)]
        if name != self.module and not changed:
            return False
        words = re.findall(r"\w+", self.name)
        private = "_".join([self.PACKAGE, "with", *words])
        module = loaded[name] = ModuleType(f"{private}.{name}")
        sys.modules[module.__name__] = module
        for other in changed:
            source = source.replace(
                f"from {installed}.{other} import", f"from {private}.{other} import"
            )
        for names in lists:
            lines = []
            for item in names.split(", "):
                other, _, alias = item.partition(" as ")
                if other in changed:
                    lines.append(f'import sys; {alias or other} = sys.modules["{private}.{other}"]')
                else:
                    lines.append(f"from {installed} import {item}")
            source = source.replace(f"from {installed} import {names}\n", "\n".join(lines) + "\n")
        code = compile(source, f"<{private}.{name}>", "exec")
        exec(code, module.__dict__)  # noqa: S102 - the source is our own
        return True

    def _source(self, name: str) -> str:
        spec = find_spec(f"radixchat.{self.PACKAGE}.{name}")
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).read_text(encoding="utf-8")
