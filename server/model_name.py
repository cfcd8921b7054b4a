"""What a model is called where clients see it. Knows no model and needs none."""

from __future__ import annotations

from pathlib import Path


def public_name(model: str) -> str:
    """What clients call it: of a file or folder its own name, not where on this machine it is."""
    path = Path(model).expanduser()
    if not path.exists():
        return model
    # Of a link its own name, not its target's: the hub's cache has files named by their hash.
    return path.resolve().name if path.name in ("", "..") else path.name
