"""The line that says why tokens were computed again."""

from __future__ import annotations

import json

import pytest

from radixchat.chat_cli.miss_note import miss_note
from radixchat.chat_cli.render import JsonOutput, TextOutput
from radixchat.server.protocol import MissReport
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.turns import turn


def missed(reason: str, seconds_ago: float | None = None) -> MissReport:
    return MissReport(reason, 428, "msg_1", None, None, 412, 840, seconds_ago)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (12.4, "12 s"), (300.0, "5 min"), (7200.0, "2 h")]
)
def test_an_eviction_is_told_with_its_age(seconds: float, said: str) -> None:
    """How many tokens of how many, and how long ago they had to go."""
    note = miss_note(turn(miss=missed("evicted", seconds)))
    assert note == f"412 of 840 tokens were computed again: evicted {said} ago"


@pytest.mark.parametrize("reason", ["cold", "template", "unknown"])
def test_what_is_expected_or_not_known_is_not_told(reason: str) -> None:
    """A first turn, a template that was announced, and what nobody knows make no noise."""
    assert miss_note(turn(miss=missed(reason))) is None
    assert miss_note(turn()) is None


def test_a_cut_is_told() -> None:
    """Leaving out other turns than before costs what follows them; so does leaving none out."""
    note = miss_note(turn(miss=missed("truncated")))
    assert note == "412 of 840 tokens were computed again: other turns are left out than before"


def test_the_note_stands_under_the_status_line() -> None:
    """On standard error, and only where there is one."""
    speaker, errors = notes()
    output = TextOutput(console(Recording()), speaker)
    output.conclude(turn())
    output.conclude(turn(miss=missed("expired")))
    again = "412 of 840 tokens were computed again: the cache of an earlier process is gone"
    status = "cached 812/840 · first token 41 ms · 38 tok/s"
    assert errors.getvalue().splitlines() == [status, status, f"note: {again}"]


def test_json_has_the_diagnostics_of_the_responses_api_and_our_details() -> None:
    """Both keys are in every turn; null where nothing was missed, x_cache of a first turn too."""
    stream = Recording()
    output = JsonOutput(stream, ids=False)
    for miss in (None, missed("evicted", 12.5), missed("cold")):
        output.conclude(turn(miss=miss))
    hit, miss_, cold = map(json.loads, stream.getvalue().splitlines())
    assert (hit["prompt_cache_diagnostics"], hit["x_cache"]) == (None, None)
    assert miss_["prompt_cache_diagnostics"] == {
        "type": "cache_miss",
        "reason": "evicted",
        "cache_missed_tokens": 412,
        "comparison_reusable_tokens": 840,
    }
    assert miss_["x_cache"] == {
        "index": 428,
        "message": "msg_1",
        "expected_text": None,
        "got_text": None,
        "evicted_seconds_ago": 12.5,
    }
    assert cold["prompt_cache_diagnostics"]["type"] == "comparison_response_not_found"
    assert cold["x_cache"] is None
