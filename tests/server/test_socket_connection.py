"""A connection that its client has left."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sockets import open_server, settled


def test_a_client_that_goes_in_the_middle_of_an_answer_is_no_error(
    settings: LocalSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether reading or writing finds it out first: no error is logged, and none is counted."""

    async def main() -> None:
        async with open_server(replace(settings, database=None)) as server:
            for number in range(50):
                async with server.client() as client:
                    await client.send("response.create", input="Hi", max_output_tokens=24)
                    for _ in range(3 + number % 8):
                        await client.receive()
                    client.socket.transport.abort()
            await settled(lambda: not server.edge.rates.num_sockets)
            assert "1011" not in server.edge.metrics.sockets_closed

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), 300))
    assert [record for record in caplog.records if record.exc_info] == []
