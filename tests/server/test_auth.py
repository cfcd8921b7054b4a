"""Keys: where they may stand, who has which, and when one is needed."""

from __future__ import annotations

import asyncio
import base64

import pytest

from radixchat.engine.errors import StoreError
from radixchat.server.auth import (
    Authenticator,
    Principal,
    accepted_subprotocol,
    key_of,
)

ANNA = Principal("key_1")


def encoded(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("authorization", "subprotocols", "key"),
    [
        (None, (), None),
        ("Bearer rc_1", (), "rc_1"),
        ("bearer  rc_1 ", (), "rc_1"),
        ("Basic rc_1", (), None),
        ("Bearer", (), ""),
        (None, ("radixchat.v1", "radixchat.bearer." + encoded("rc_1")), "rc_1"),
        (None, ("radixchat.bearer." + encoded("ключ"),), "ключ"),
        (None, ("radixchat.bearer.!!!",), None),
        (None, ("radixchat.bearer.a",), None),
        (None, ("radixchat.bearer._w",), None),  # not UTF-8
        ("Bearer rc_1", ("radixchat.bearer." + encoded("rc_2"),), "rc_1"),
    ],
)
def test_where_a_key_stands(
    authorization: str | None, subprotocols: tuple[str, ...], key: str | None
) -> None:
    """The header comes first; a browser's WebSocket has the key in a subprotocol."""
    assert key_of(authorization, subprotocols) == key


def test_the_key_is_not_sent_back() -> None:
    """A WebSocket is accepted with the protocol that was asked for, never with the key."""
    assert accepted_subprotocol(["radixchat.v1", "radixchat.bearer.x"]) == "radixchat.v1"
    assert accepted_subprotocol(["radixchat.bearer.x"]) is None
    assert accepted_subprotocol([]) is None


class Keys:
    """A store of keys, by hand."""

    def __init__(self, **keys: Principal) -> None:
        self.keys = keys
        self.looked_up: list[str] = []

    async def find(self, key: str) -> Principal | None:
        self.looked_up.append(key)
        return self.keys.get(key)

    async def any_key(self) -> bool:
        return bool(self.keys)


def test_without_any_key_everybody_is_local() -> None:
    """An SDK has to send some key: one that means nothing keeps nobody out."""
    keys = Keys()
    auth = Authenticator(keys.find, keys.any_key, is_open=True)
    local = Principal("local", is_operator=True)
    assert asyncio.run(auth.principal(None)) == local
    assert asyncio.run(auth.principal("sk-anything")) == local
    assert not asyncio.run(auth.needs_key())


def test_the_first_key_closes_an_open_server() -> None:
    """From the first key on one is needed, and it stays so when that key is revoked."""
    keys = Keys()
    auth = Authenticator(keys.find, keys.any_key, is_open=True)
    assert asyncio.run(auth.principal(None)) is not None
    keys.keys["rc_1"] = ANNA
    assert asyncio.run(auth.principal(None)) is None
    assert asyncio.run(auth.principal("rc_2")) is None
    assert asyncio.run(auth.principal("rc_1")) == ANNA
    del keys.keys["rc_1"]
    assert asyncio.run(auth.principal("rc_1")) is None
    assert asyncio.run(auth.principal(None)) is None


def test_a_key_that_is_withdrawn() -> None:
    """Whoever came in with it is told; so is one without, when the first key is made."""
    keys = Keys(rc_1=ANNA)

    async def main() -> None:
        auth = Authenticator(keys.find, keys.any_key, is_open=True, look_seconds=0.001)
        waiting = asyncio.create_task(auth.withdrawn("rc_1", ANNA.id))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        del keys.keys["rc_1"]
        await asyncio.wait_for(waiting, 60)
        waiting = asyncio.create_task(auth.withdrawn(None, "local"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        keys.keys["rc_2"] = ANNA
        await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


def test_a_database_that_is_busy_withdraws_nothing() -> None:
    """Only an answer counts; it is asked again."""
    keys, failures = Keys(rc_1=ANNA), [StoreError("locked"), StoreError("locked")]

    async def find(key: str) -> Principal | None:
        if failures:
            raise failures.pop()
        return await keys.find(key)

    async def main() -> None:
        auth = Authenticator(find, keys.any_key, is_open=True, look_seconds=0.001)
        waiting = asyncio.create_task(auth.withdrawn("rc_1", ANNA.id))
        async with asyncio.timeout(60):
            while failures:  # noqa: ASYNC110 - nobody tells that it has looked
                await asyncio.sleep(0.005)
        assert not waiting.done()
        waiting.cancel()

    asyncio.run(main())


def test_a_server_for_strangers_is_never_open() -> None:
    """Where others reach it, nobody comes in without a key, even if there is none."""
    keys = Keys()
    auth = Authenticator(keys.find, keys.any_key, is_open=False)
    assert asyncio.run(auth.principal(None)) is None
    assert asyncio.run(auth.principal("rc_1")) is None


def test_what_cannot_be_a_key_is_not_looked_up() -> None:
    """A header of a megabyte costs no hash and no query."""
    keys = Keys(rc_1=ANNA)
    auth = Authenticator(keys.find, keys.any_key, is_open=False)
    for key in ("", "x" * 513):
        assert asyncio.run(auth.principal(key)) is None
    assert keys.looked_up == []
