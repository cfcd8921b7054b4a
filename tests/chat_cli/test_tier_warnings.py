"""A warning of the disk cache is a note of the chat, once; and afterwards a warning again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from radixchat.chat_cli.tier_warnings import warnings_told
from radixchat.engine.tiers import disk_store


def test_warnings_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """From another thread, too; less than a warning is not."""
    logger = logging.getLogger(disk_store.__name__)
    told: list[str] = []

    async def main() -> None:
        with warnings_told(told.append):
            await asyncio.to_thread(logger.warning, "the disk cache in %s is off", "here")
            logger.info("nothing")
            await asyncio.sleep(0)
        logger.warning("afterwards")

    asyncio.run(main())
    assert told == ["the disk cache in here is off"]
    assert [record.getMessage() for record in caplog.records] == ["afterwards"]
