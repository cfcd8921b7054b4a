"""A replay's result as a JSON line."""

from __future__ import annotations

import json

from radixchat.bench.replay_json import replay_json
from radixchat.tests.bench.replay_results import ours, replay, simulated, two_sizes

ARM_KEYS = [
    "engine",
    "policy",
    "page_size",
    "capacity_tokens",
    "hit_rate",
    "reference_lru",
    "optimum",
    "infinite",
    "evicted_tokens",
    "us_per_match",
    "us_per_insert",
    "us_per_evicted_page",
    "index_bytes_per_token",
    "per_turn",
]


def test_the_keys() -> None:
    """The line has the keys that scripts rely on, and says where it comes from."""
    line = replay_json(two_sizes(name="Verkehr für\nheute.jsonl"))
    assert "\n" not in line
    assert line.isascii()
    read = json.loads(line)
    assert list(read) == ["trace", "requests", "tokens", "arms", "commit", "machine"]
    assert (read["trace"], read["requests"]) == ("Verkehr für\nheute.jsonl", 1000)
    assert all(list(arm) == ARM_KEYS for arm in read["arms"])


def test_rates_are_fractions() -> None:
    """A rate is between 0 and 1, also those of the turns."""
    (arm,) = json.loads(replay_json(replay(ours("lru", 50_000, 0.2))))["arms"]
    assert (arm["hit_rate"], arm["optimum"], arm["infinite"]) == (0.2, 0.45, 0.5)
    assert arm["per_turn"] == [
        {"turn": 1, "requests": 900, "tokens": 400_000, "hit_rate": 0.125},
        {"turn": 10, "requests": 100, "tokens": 600_000, "hit_rate": 0.75},
    ]


def test_what_does_not_exist_is_null() -> None:
    """The policy and the times of another engine, no limit, unknown turns: null, not 0."""
    (arm,) = json.loads(replay_json(replay(simulated("llamacpp", None, 0.0))))["arms"]
    absent = {key for key, value in arm.items() if value is None}
    assert absent == {
        "policy",
        "capacity_tokens",
        "us_per_match",
        "us_per_insert",
        "us_per_evicted_page",
        "index_bytes_per_token",
        "per_turn",
    }
    assert arm["hit_rate"] == 0.0
