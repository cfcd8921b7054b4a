"""Loads a model, in a thread: torch's library, torch, what is compiled once, the weights.

Knows the service in this process, whose import is a part of the work. No prompt and no store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.torch_library import map_torch_library
from radixchat.server.protocol import ModelLoadError

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost
    from radixchat.server.local import LoadedModel, LocalSettings
    from radixchat.server.store_thread import StoreThread


def local_settings(settings: ChatSettings) -> LocalSettings:
    """What the service in this process is to be. Raises ImportError."""
    from radixchat.server.local import LocalSettings

    names = (field.name for field in dataclasses.fields(LocalSettings))
    values: dict[str, Any] = {name: getattr(settings, name) for name in names}
    if not settings.log:
        values["disk_cache_bytes"] = 0  # a process that is killed would leave it there
    return LocalSettings(**values)


def prepare(settings: ChatSettings, report: Callable[[str], None]) -> LocalSettings:
    """What only a machine's first run has to do, told line by line; what the service is to be.

    Raises ConfigError; ModelLoadError where what computes models cannot be imported.
    """
    try:
        map_torch_library()
        from radixchat.server import local
    except (ImportError, OSError) as error:
        raise ModelLoadError(f"what computes the model cannot be imported: {error}") from error
    of_the_service = local_settings(settings)
    local.prepare(of_the_service, report)
    return of_the_service


def load(
    settings: ChatSettings, secret: bytes, report: Callable[[str], None]
) -> tuple[LocalSettings, LoadedModel]:
    """The model that the settings name, after what `prepare` does. Raises as it does.

    secret: of the store that its conversations are in.
    """
    of_the_service = prepare(settings, report)
    from radixchat.server import local

    disk = of_the_service.disk_cache(secret)
    return of_the_service, local.load_model(of_the_service, disk)


def host_of(
    of_the_service: LocalSettings, model: LoadedModel, database: StoreThread
) -> AbstractAsyncContextManager[ChatHost]:
    """What answers with a loaded model, over a store that outlives it."""
    from radixchat.server import local

    return local.run_host(of_the_service, model, database, closes_store=False)


def inspect(settings: ChatSettings) -> None:
    """Whether that model could be loaded, by its files' headers. Raises ModelLoadError."""
    of_the_service = prepare(settings, lambda _: None)
    from radixchat.server import local

    local.inspect_model(of_the_service)
