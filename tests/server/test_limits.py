"""Limits and settings of a server's edge: what they admit and how they refuse."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.server.limits import Limits
from radixchat.server.serve_settings import ServeSettings


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Limits)])
def test_no_limit_is_zero(field: str) -> None:
    """A bound that would admit nothing is refused, by its name and value."""
    kind = float if isinstance(getattr(Limits(), field), float) else int
    for value in (kind(0), kind(-1)):
        values: dict[str, Any] = {field: value}
        with pytest.raises(ConfigError, match=f"{field} is {value}"):
            Limits(**values)


def test_only_shares_may_be_without_a_limit() -> None:
    """What somebody uses in a minute or a day may be as much as they like; nothing else."""
    assert Limits().requests_per_minute is None
    assert Limits().tokens_per_day is None
    with pytest.raises(ConfigError, match="stalled_seconds is inf"):
        Limits(stalled_seconds=math.inf)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"port": 65536}, "port is 65536"),
        ({"port": -1}, "port is -1"),
        ({"host": ""}, "host is empty"),
        ({"tls_cert": Path("c")}, "tls_cert is given without tls_key"),
        ({"tls_key": Path("k")}, "tls_key is given without tls_cert"),
        ({"auth_mode": "query"}, "auth_mode is 'query'"),
        ({"log_format": "xml"}, "log_format is 'xml'"),
        ({"drain_timeout_s": -1}, "drain_timeout_s is -1"),
        ({"drain_timeout_s": math.nan}, "drain_timeout_s is nan"),
        ({"disconnect_grace_s": -2}, "disconnect_grace_s is -2"),
        ({"disconnect_grace_s": math.inf}, "disconnect_grace_s is inf"),
    ],
)
def test_settings_that_cannot_be(values: dict[str, Any], complaint: str) -> None:
    """A setting that cannot be is refused where it is made, with its value."""
    with pytest.raises(ConfigError, match=complaint):
        ServeSettings(**values)


def test_an_answer_that_nobody_reads_may_go_on_to_its_end() -> None:
    """-1 is no number of seconds and means for ever; 0 means not at all."""
    assert ServeSettings(disconnect_grace_s=-1).disconnect_grace_s == -1
    assert ServeSettings(disconnect_grace_s=0).disconnect_grace_s == 0
