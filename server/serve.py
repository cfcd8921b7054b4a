"""Runs a server from its start to its end: listen, load, serve, drain, close.

    listening      /readyz 503, everything else 503: the model is being loaded
    serving        until a signal, an operator, or the engine's failure
    draining       /readyz 503 first, with the listener open; sockets are told; nothing new begins;
                   what runs may finish, or is stored as interrupted
    closing        every socket 1012, then the listener, then the engine and the store

Owns this order. Knows no command line and no route.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from radixchat.engine.errors import EngineStopped
from radixchat.server.app import app_of
from radixchat.server.edge import Edge
from radixchat.server.host import ChatHost
from radixchat.server.key_file import find_keys
from radixchat.server.keys import authenticator, require_key
from radixchat.server.listener import Listener, bind, make_room, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.log_format import log_event
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.serving import Serving
from radixchat.server.signals import Signals
from radixchat.server.tls import tls_context

_LOGGER = logging.getLogger(__name__)
STOPPED, FAILED = 0, 1
_LOOK_SECONDS = 0.1
# What sockets get to say goodbye, and closing the rest, at most.
_GOODBYE_SECONDS = 5.0
_CLOSING_SECONDS = 30.0


def open_sockets(settings: ServeSettings, database: Path | None) -> list[socket.socket]:
    """The sockets to serve at, after a look at all that can be wrong before a model is loaded.

    Raises ConfigError or StoreError.
    """
    tls_context(settings)
    require_key(settings, [] if database is None else find_keys(database))
    return bind(settings)


async def serve(
    local: LocalSettings,
    settings: ServeSettings,
    sockets: Sequence[socket.socket],
    announce: Callable[[Serving], None],
) -> int:
    """Serve at bound sockets until told to leave; 0, or 1 where the engine failed.

    announce is called once the model is loaded. Raises ModelLoadError, ConfigError or StoreError
    before that.
    """
    make_room(settings.limits)
    edge = Edge(settings)
    listener = Listener(app_of(edge), settings, sockets)
    with Signals() as signals:
        await listener.start()
        try:
            async with open_host(local) as host:
                auth = authenticator(host, settings)
                await restore_shares(edge, host)
                edge.open(host, auth)
                serving = Serving(
                    url=url_of(settings, sockets),
                    model_name=host.model_name,
                    plan=host.engine_in_words,
                    n_ctx=host.n_ctx,
                    database=local.database,
                    needs_key=await auth.needs_key(),
                    notices=host.notices,
                )
                log_event(_LOGGER, logging.INFO, "serving", url=serving.url, model=host.model_name)
                announce(serving)
                return await serve_until_told(edge, host, listener, signals)
        finally:
            await listener.stop()


async def restore_shares(edge: Edge, host: ChatHost) -> None:
    """Count the day's stored answers of processes before this one."""
    if edge.settings.limits.tokens_per_day is not None:  # it reads the whole table
        since = edge.rates.midnight
        edge.rates.restore(await host.database(host.store.output_tokens_since, since))


async def serve_until_told(edge: Edge, host: ChatHost, listener: Listener, signals: Signals) -> int:
    """Return when everything that was served is over; 0, or 1 where the engine failed."""
    told = {
        asyncio.create_task(signals.first(), name="signals"),
        asyncio.create_task(edge.departure.requested.wait(), name="drain request"),
    }
    try:
        done: set[asyncio.Task[object]] = set()
        while not done:
            if host.failure is not None:
                return await _fail(edge, host.failure)
            done, _ = await asyncio.wait(told, timeout=_LOOK_SECONDS)
    finally:
        for waiting in told:
            waiting.cancel()
    signals.leave_within(edge.settings.drain_timeout_s + _CLOSING_SECONDS)
    await drain(edge, host)
    await listener.stop()
    return STOPPED if host.failure is None else FAILED


async def drain(edge: Edge, host: ChatHost) -> None:
    """Take nothing new, let what runs finish or be stored, then have every socket closed."""
    seconds = edge.settings.drain_timeout_s
    running = max(host.num_running, edge.num_answers)
    log_event(_LOGGER, logging.INFO, "draining", running=running, seconds=seconds)
    edge.departure.drain(seconds)
    host.stop_accepting()
    await asyncio.gather(host.drain(seconds), _wait(lambda: not edge.num_answers, seconds))
    edge.departure.close()
    if not await _wait(lambda: not edge.rates.num_sockets, _GOODBYE_SECONDS):
        log_event(_LOGGER, logging.WARNING, "sockets left", sockets=edge.rates.num_sockets)


async def _fail(edge: Edge, failure: EngineStopped) -> int:
    """The engine is dead: whoever is connected learns it, and the process ends."""
    log_event(_LOGGER, logging.ERROR, "engine failed", error=failure)
    edge.departure.fail("the engine has failed")
    await _wait(lambda: not edge.rates.num_sockets and not edge.num_answers, _GOODBYE_SECONDS)
    return FAILED


async def _wait(is_done: Callable[[], bool], seconds: float) -> bool:
    """Whether it was done within that time."""
    give_up = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > give_up:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
