"""Why the cache had not more: every reason in words, with its place, its texts and its tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from radixchat.chat_cli.miss_explanation import miss_explanation
from radixchat.server.protocol import MessageView, MissReport, ResponseUsage
from radixchat.tests.chat_cli.turns import turn

PATH = [
    MessageView("msg_s", "system", "", "complete"),
    MessageView("msg_1", "user", "", "complete"),
    MessageView("msg_2", "assistant", "", "complete"),
    MessageView("msg_3", "user", "", "complete"),
]
_OF_THE_PROMPT = ("cold", "changed", "template", "truncated", "model", "namespace")
REASONS = (*_OF_THE_PROMPT, "evicted", "expired", "unknown")


def missed(reason: str, **changes: Any) -> MissReport:
    return replace(MissReport(reason, 428, "msg_2", None, None, 412, 840), **changes)


def test_a_hit() -> None:
    """What is not cached is new."""
    lines = miss_explanation(turn(), PATH)
    assert lines == {"why": "nothing was missed: 812 of 840 cached, the other 28 are new"}


def test_a_changed_message() -> None:
    """Which, from which token on, what stood there and what stands there now."""
    miss = missed("changed", expected_text="in Paris", got_text="in Rome")
    assert miss_explanation(turn(miss=miss), PATH) == {
        "why": "a message before the last one has another text than before",
        "from": "answer 1, token 428 of 840, counted from 0",
        "before": "in Paris",
        "now": "in Rome",
        "tokens": "812 of 840 cached; 412 were computed again; "
        "the first 840 are as in the earlier prompt",
    }


def test_an_eviction() -> None:
    """When it was."""
    lines = miss_explanation(turn(miss=missed("evicted", evicted_seconds_ago=300.0)), PATH)
    assert lines["when"] == "5 min ago"


def test_every_reason_has_words_of_its_own() -> None:
    """One that a later server has is told as it tells it."""
    told = [miss_explanation(turn(miss=missed(reason)), PATH)["why"] for reason in REASONS]
    assert len(set(told)) == len(REASONS)
    assert not any("server says" in words for words in told)
    assert miss_explanation(turn(miss=missed("tides")), PATH)["why"] == "the server says: tides"


def test_cold_is_no_miss() -> None:
    """Of a first prompt nothing can have been missed, and no place is named."""
    lines = miss_explanation(turn(miss=missed("cold")), PATH)
    assert list(lines) == ["why", "tokens"]
    assert lines["tokens"] == "812 of 840 cached, the other 28 are new"


def test_what_is_not_known_is_not_said() -> None:
    """A message that is not on the path has no number here, and tokens may not be compared."""
    miss = missed("unknown", message="msg_other", comparison_reusable_tokens=None)
    lines = miss_explanation(turn(miss=miss), PATH)
    assert lines["from"] == "token 428 of 840, counted from 0"
    assert lines["tokens"] == "812 of 840 cached; 412 were computed again"


@pytest.mark.parametrize(("output_tokens", "words"), [(0, "before its first token"), (3, "is off")])
def test_nothing_was_cached_and_nothing_is_said_of_it(output_tokens: int, words: str) -> None:
    """That is not the same as having missed nothing."""
    done = replace(turn(), usage=ResponseUsage(840, 0, 840, output_tokens))
    lines = miss_explanation(done, PATH)
    assert words in lines["why"]
    assert lines["tokens"] == "0 of 840 cached"
