"""Where cached tokens are besides the pool, in words; nothing where there is nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.chat_cli.cache_commands import totals
from radixchat.chat_cli.miss_explanation import miss_explanation
from radixchat.chat_cli.places_below import from_below, lies_below
from radixchat.chat_cli.status_line import status_line
from radixchat.server.protocol import CacheReport, CacheSegment, MissReport, ResponseUsage
from radixchat.tests.chat_cli.turns import turn

DISK = ResponseUsage(840, 812, 28, 39, host_tokens=12, disk_tokens=700)
SEGMENTS = (
    CacheSegment(0, 100, "memory", "m1"),
    CacheSegment(100, 112, "host", "m1"),
    CacheSegment(112, 812, "disk", "m2"),
    CacheSegment(812, 840, "computed", "m3"),
)


def test_words() -> None:
    """The nearest first; the pool's own are not named."""
    assert from_below(DISK) == "12 from host memory, 700 from disk"
    assert from_below(ResponseUsage(840, 812, 28, 39)) == ""
    assert lies_below(SEGMENTS) == "12 in host memory, 700 on disk"
    assert lies_below(SEGMENTS[:1]) == ""


def test_in_the_line_under_an_answer() -> None:
    """After the count that they are a part of."""
    usage = replace(DISK, host_tokens=0)
    assert status_line(replace(turn(), usage=usage)).startswith("cached 812/840 (700 from disk) ·")


def test_in_the_picture_and_in_why() -> None:
    """/cache and /why."""
    report = CacheReport(None, 840, 812, SEGMENTS)
    said = "840 of 1,000 tokens: 812 cached (12 in host memory, 700 on disk), 28 to compute"
    assert totals(report, 1000) == said
    assert miss_explanation(replace(turn(), usage=DISK), ())["cached"] == from_below(DISK)
    miss = MissReport("not_restored", 0, None, None, None, 700, 800)
    why = "disk takes 9 us a token, computing 1"
    done = replace(turn(miss=miss), usage=ResponseUsage(840, 0, 28, 39, not_restored=why))
    assert miss_explanation(done, ())["because"] == why


def test_a_sum_that_is_none() -> None:
    """What the parts say is never more than what there was."""
    with pytest.raises(AssertionError, match="not a sum"):
        ResponseUsage(10, 8, 0, 1, disk_tokens=9)
    with pytest.raises(AssertionError, match="not a sum"):
        ResponseUsage(10, 11, 0, 1)
