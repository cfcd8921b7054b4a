"""`radixchat serve --check`: whether each part of a server would work, without serving.

Looks and changes nothing: no model is fetched, no database made; one that is there is brought up
to date, as serving does. Knows no command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.errors import ConfigError, RadixChatError, StoreError
from radixchat.server.error_info import ErrorInfo, describe_error
from radixchat.server.key_file import find_keys
from radixchat.server.keys import require_key
from radixchat.server.listener import bind, resolve, url_of
from radixchat.server.local import LocalSettings, load_model
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.store import Store
from radixchat.server.tls import exposed_key, tls_context


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen of one part; error: why it would not work."""

    part: str
    said: str
    error: ErrorInfo | None = None


def findings(local: LocalSettings, settings: ServeSettings) -> Iterator[Finding]:
    """Look at one part after the other; a part that fails does not keep the next from it."""
    looks: tuple[tuple[str, Callable[[], str]], ...] = (
        ("address", lambda: _address(settings)),
        ("tls", lambda: _tls(settings)),
        ("database", lambda: _database(local.database)),
        ("keys", lambda: _keys(local.database, settings)),
        ("model", lambda: _model(local)),
    )
    for part, look in looks:
        try:
            yield Finding(part, look())
        except (RadixChatError, OSError) as error:
            told = error if isinstance(error, RadixChatError) else ConfigError(str(error))
            yield Finding(part, str(error), describe_error(told))


def _address(settings: ServeSettings) -> str:
    sockets = bind(settings)
    try:
        return f"{url_of(settings, sockets)} is free"
    finally:
        for bound in sockets:
            bound.close()


def _tls(settings: ServeSettings) -> str:
    if tls_context(settings) is None:
        return "not asked for; keys and texts travel as they are"
    exposed = exposed_key(settings)
    note = f"; others may read {exposed}: chmod 600 {exposed}" if exposed is not None else ""
    return f"{settings.tls_cert} and its key belong together{note}"


def _database(path: Path | None) -> str:
    if path is None:
        return "in memory: nothing outlives the process"
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"{path} cannot be made: {folder} cannot be written")
        return f"{path} will be made"
    with Store(path) as store:
        problems = store.verify()
    if problems:
        raise StoreError(f"{path} has {len(problems)} problems, such as: {problems[0]}")
    return f"{path} verifies"


def _keys(path: Path | None, settings: ServeSettings) -> str:
    keys = [] if path is None else find_keys(path)
    is_known = _has_address(settings)
    if is_known:
        require_key(settings, keys)
    if not keys:
        return "none; none needed" if is_known else "none; the address says whether one is needed"
    good = sum(key.revoked_at is None for key in keys)
    return f"{good or 'all revoked'}; a key is needed"


def _has_address(settings: ServeSettings) -> bool:
    """Whether the host is one; where not, the part about the address has said it."""
    try:
        return bool(resolve(settings))
    except ConfigError:
        return False


def _model(local: LocalSettings) -> str:
    model = load_model(local)
    try:
        return f"{local.model}: {model.engine.plan}"
    finally:
        model.options.close()
