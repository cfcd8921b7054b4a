"""The command `radixchat` of this checkout, as a process that leaves the user's files alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

COMMAND = (sys.executable, "-c", "from radixchat.chat_cli.main import main; main()")
_PLACES = ("config", "data", "state", "cache")


def own_files(folder: Path) -> dict[str, str]:
    """The environment in which all that it keeps is below `folder`.

    What it had cached of other conversations is not there, nor are models: they go by their paths.
    """
    return os.environ | {f"RADIXCHAT_{name.upper()}_DIR": str(folder / name) for name in _PLACES}
