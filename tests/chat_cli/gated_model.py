"""A model whose loading stands still, for as long as a test wants it to.

The list of its weights' files is a pipe: whoever reads it waits until somebody writes. Owns the
folder. Knows no client.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

_INDEX = "model.safetensors.index.json"
_CONTENT = json.dumps({"weight_map": {"all": "model.safetensors"}})


class GatedModel:
    """A copy of `model` at `folder` that is not loaded before `open`."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(model, folder)
        os.mkfifo(folder / _INDEX)

    def open(self) -> None:
        """Wait until the loading has come to the gate, and let it and all later ones through."""
        gate = os.open(self.folder / _INDEX, os.O_WRONLY)
        behind = self.folder / "index"
        behind.write_text(_CONTENT, encoding="utf-8")
        behind.replace(self.folder / _INDEX)
        os.write(gate, _CONTENT.encode())
        os.close(gate)
