"""Where the client's files are: configuration, conversations, input history, models.

Knows the platform's conventions and the four overrides; not what is in the files.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_NAME = "radixchat"
PLACES = ("config", "data", "state", "cache", "database", "history")


def config_file() -> Path:
    """`config.toml` in RADIXCHAT_CONFIG_DIR, or in the platform's configuration folder."""
    folder = os.environ.get("RADIXCHAT_CONFIG_DIR") or platformdirs.user_config_dir(_NAME)
    return Path(folder).expanduser() / "config.toml"


def database_file() -> Path:
    """`sessions.db` in RADIXCHAT_DATA_DIR, or in the platform's data folder."""
    folder = os.environ.get("RADIXCHAT_DATA_DIR") or platformdirs.user_data_dir(_NAME)
    return Path(folder).expanduser() / "sessions.db"


def history_file() -> Path:
    """`history` in RADIXCHAT_STATE_DIR, or in the platform's state folder."""
    folder = os.environ.get("RADIXCHAT_STATE_DIR") or platformdirs.user_state_dir(_NAME)
    return Path(folder).expanduser() / "history"


def cache_folder() -> Path:
    """RADIXCHAT_CACHE_DIR, or the platform's cache folder: what can be fetched again."""
    folder = os.environ.get("RADIXCHAT_CACHE_DIR")
    return Path(folder) if folder else Path(platformdirs.user_cache_dir(_NAME))


def disk_cache_folder() -> Path:
    """`kv` in the cache folder: what was computed of conversations, and can be computed again."""
    return cache_folder() / "kv"


def places() -> dict[str, Path]:
    """Files and folders by name, as PLACES has them; none of them need exist."""
    files = (config_file(), database_file().parent, history_file().parent, cache_folder())
    return dict(zip(PLACES, (*files, database_file(), history_file()), strict=True))


def private_file(path: Path) -> None:
    """Create `path`, and its folder, readable by their owner only; what exists stays as it is.

    What somebody typed is private. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600))
