"""Where a server listens: its addresses, and the files that it may have open."""

from __future__ import annotations

import resource
import socket

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.server.limits import Limits
from radixchat.server.listener import bind, is_local, make_room, resolve, url_of
from radixchat.server.serve_settings import ServeSettings

FREE = ServeSettings(port=0)


def test_an_address_that_is_taken_is_told_at_once() -> None:
    """Before anything is loaded, with the address and what would do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1 port {port}: Address already in use"):
            bind(ServeSettings(port=port))


def test_a_host_that_is_none() -> None:
    """A name that means no address is refused with the name."""
    with pytest.raises(ConfigError, match=r"host is 'no\.such\.host\.invalid'"):
        resolve(ServeSettings(host="no.such.host.invalid"))
    with pytest.raises(ConfigError, match=r"cannot listen at 203\.0\.113\.7 port"):
        bind(ServeSettings(host="203.0.113.7", port=0))


def test_until_it_listens_nobody_waits() -> None:
    """A bound address refuses connections, it does not leave them hanging."""
    sockets = bind(FREE)
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(sockets[0].getsockname())
    finally:
        for bound in sockets:
            bound.close()


def test_addresses_of_this_machine() -> None:
    """What only this machine reaches, and the address that a browser opens."""
    assert is_local(ServeSettings())
    assert is_local(ServeSettings(host="localhost"))
    assert not is_local(ServeSettings(host="0.0.0.0"))
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        settings = ServeSettings(host=host, port=0)
        sockets = bind(settings)
        port = sockets[0].getsockname()[1]
        assert {bound.getsockname()[1] for bound in sockets} == {port}
        name = "127.0.0.1" if host == "0.0.0.0" else host
        assert url_of(settings, sockets) == f"http://{name}:{port}"
        for bound in sockets:
            bound.close()


def test_there_is_room_for_all_connections() -> None:
    """A process may have more files open than connections are allowed, if the system lets it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        make_room(Limits(max_sockets=300))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1624
        make_room(Limits(max_sockets=1))  # never less than there was
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1624
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
