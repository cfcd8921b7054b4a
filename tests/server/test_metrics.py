"""Tests of server/metrics.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.engine.request import FinishReason, TokenEvent, Usage
from radixchat.server.error_info import ErrorInfo
from radixchat.server.metrics import Metrics
from radixchat.server.protocol import MissReport, ResponseDone, ResponseTimings, ResponseUsage

DONE = ResponseDone(
    conversation="conv_1",
    response="resp_1",
    status="completed",
    reason=None,
    output_text="hello",
    usage=ResponseUsage(10, 9, 1, 3),
    timings=ResponseTimings(ttft_ms=200.0, prompt_ms=150.0, predicted_ms=50.0),
    input_ids=(1,) * 10,
    output_ids=(1,) * 3,
)
MISS = MissReport("cold", 0, None, None, None, 0, None)


def token(request: int, at: float, *, last: bool = False) -> TokenEvent:
    """A token of a request at a time."""
    usage = Usage(10, 4, 0, 1, queue_seconds=0.25) if last else None
    return TokenEvent(request, 7, FinishReason.STOP if last else None, usage, at=at)


def test_gaps_are_between_tokens_of_one_request() -> None:
    """The first token has none; another request's tokens do not come in between."""
    metrics = Metrics()
    metrics.tokens_came([token(1, 10.0), token(2, 10.0)])
    metrics.tokens_came([token(1, 10.5)])
    metrics.tokens_came([token(2, 12.0)])
    assert metrics.token_gaps.count == 2
    assert metrics.token_gaps.sum == pytest.approx(2.5)


def test_tokens_of_one_step_share_its_gap() -> None:
    """Three tokens of a step that took 0.6 s are three gaps of 0.2 s."""
    metrics = Metrics()
    metrics.tokens_came([token(1, 10.0), token(1, 10.0)])
    metrics.tokens_came([token(1, 10.6)] * 3)
    assert metrics.token_gaps.count == 3
    assert metrics.token_gaps.sum == pytest.approx(0.6)
    counts = dict(metrics.token_gaps.buckets())
    assert (counts["0.1"], counts["0.25"]) == (0, 3)


def test_an_ended_request_is_counted_and_forgotten() -> None:
    """Queue time and computed tokens are those of its usage; a later one of that id starts anew."""
    metrics = Metrics()
    metrics.tokens_came([token(1, 1.0), token(2, 1.0)])
    metrics.tokens_came([token(1, 2.0, last=True)])
    metrics.tokens_came([token(1, 50.0)])
    assert metrics.queue_time.sum == 0.25
    assert metrics.computed_tokens.sum == 6
    assert metrics.token_gaps.count == 1


@pytest.mark.parametrize(
    ("cached", "miss", "label"), [(9, None, "hit"), (9, MISS, "partial"), (0, MISS, "miss")]
)
def test_the_first_token_is_counted_by_what_the_cache_did(
    cached: int, miss: MissReport | None, label: str
) -> None:
    """hit: nothing was missed; partial: less was found than could have been; miss: nothing was."""
    metrics = Metrics()
    metrics.response_ended(replace(DONE, usage=ResponseUsage(10, cached, 1, 3), miss=miss))
    assert {name: seen.count for name, seen in metrics.first_token.items() if seen.count} == {
        label: 1
    }
    assert metrics.first_token[label].sum == pytest.approx(0.2)


def test_responses_are_counted_by_their_end() -> None:
    """A failed one by its error's code, an incomplete one by its reason."""
    metrics = Metrics()
    metrics.response_ended(DONE)
    metrics.response_ended(replace(DONE, status="incomplete", reason="interrupted"))
    error = ErrorInfo("engine_failed", 500, "", {})
    never = ResponseTimings(None, None, None)
    metrics.response_ended(replace(DONE, status="failed", error=error, timings=never))
    assert dict(metrics.responses) == {
        ("completed", ""): 1,
        ("incomplete", "interrupted"): 1,
        ("failed", "engine_failed"): 1,
    }
    assert sum(seen.count for seen in metrics.first_token.values()) == 2


def test_a_client_makes_no_series() -> None:
    """Its close codes are thousands; those that mean nothing here are one."""
    metrics = Metrics()
    for code in (1000, 1012, 3000, 4000, 4999, 3500):
        metrics.socket_opened()
        metrics.socket_closed(code)
    assert metrics.sockets_closed == {"1000": 1, "1012": 1, "3000": 1, "other": 3}
