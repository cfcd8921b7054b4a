"""What each principal has used, against its limits, on a clock of the test's."""

from __future__ import annotations

import contextvars

import pytest

from radixchat.engine.errors import RateLimited
from radixchat.server.limits import Limits
from radixchat.server.protocol import ResponseCreated, ResponseDone, ResponseTimings, ResponseUsage
from radixchat.server.rate import Rates, current_principal

MIDNIGHT = 20_000 * 86_400.0


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self, now: float = MIDNIGHT) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def refusal(rates: Rates, principal: str) -> RateLimited:
    """Why no answer may begin."""
    with pytest.raises(RateLimited) as refused:
        rates.begin(principal)
    return refused.value


def done(response: str, output_tokens: int) -> ResponseDone:
    return ResponseDone(
        conversation="conv",
        response=response,
        status="completed",
        reason=None,
        output_text="",
        usage=ResponseUsage(10, 0, 10, output_tokens),
        timings=ResponseTimings(None, None, 0.0),
        input_ids=(),
        output_ids=(),
    )


def test_without_limits_everything_may_begin() -> None:
    """By default nobody is held back."""
    rates = Rates(Limits(), Clock())
    for _ in range(1000):
        rates.begin("a")


def test_answers_a_minute() -> None:
    """A minute's answers may begin at once; then one each time that another is due."""
    clock = Clock()
    rates = Rates(Limits(requests_per_minute=6), clock)
    for _ in range(6):
        rates.begin("a")
    refused = refusal(rates, "a")
    assert refused.retry_after_ms == 10_000
    assert refused.details == {"limit": 6, "used": 6, "kind": "requests_per_minute"}
    rates.begin("b")  # another principal's share is its own

    clock.now += 9.99
    assert refusal(rates, "a").retry_after_ms == pytest.approx(10, abs=1)
    clock.now += 0.01
    rates.begin("a")
    refusal(rates, "a")

    clock.now += 3600
    for _ in range(6):  # no more than a minute's is saved up
        rates.begin("a")
    refusal(rates, "a")


def test_a_refusal_costs_nothing() -> None:
    """Whoever asks too early does not wait longer for it."""
    clock = Clock()
    rates = Rates(Limits(requests_per_minute=1), clock)
    rates.begin("a")
    for _ in range(10):
        refusal(rates, "a")
    clock.now += 60
    rates.begin("a")


def test_a_clock_that_is_set_back_gives_nothing_away() -> None:
    """Time that runs backwards neither fills a bucket nor empties it."""
    clock = Clock()
    rates = Rates(Limits(requests_per_minute=2), clock)
    rates.begin("a")
    clock.now -= 3600
    rates.begin("a")
    refusal(rates, "a")


def test_tokens_a_day() -> None:
    """The answer that crosses the line is finished; the next one begins after midnight."""
    clock = Clock(MIDNIGHT + 3600)
    rates = Rates(Limits(tokens_per_day=100), clock)
    rates.begin("a")
    rates.spend("a", 150)
    refused = refusal(rates, "a")
    assert refused.retry_after_ms == 23 * 3600 * 1000
    assert refused.details == {"limit": 100, "used": 150, "kind": "tokens_per_day"}
    rates.begin("b")
    clock.now = MIDNIGHT + 86_400
    rates.begin("a")
    assert rates.tokens_today("a") == 0


def test_what_was_generated_before_counts() -> None:
    """A process that begins in the middle of a day goes on with the day's counts."""
    rates = Rates(Limits(tokens_per_day=100), Clock(MIDNIGHT + 3600))
    assert rates.midnight == MIDNIGHT
    rates.restore({"a": 100, "b": 99})
    assert refusal(rates, "a").details["used"] == 100
    rates.begin("b")


def test_a_stored_answer_counts_for_whoever_began_it() -> None:
    """An answer that ends when its reader has gone is counted all the same, once."""
    rates = Rates(Limits(), Clock())

    def begin() -> None:
        current_principal.set("a")
        rates.response_began(ResponseCreated("conv", "resp_1"))

    contextvars.copy_context().run(begin)
    rates.response_began(ResponseCreated("conv", "resp_2"))  # nobody's, in the terminal
    rates.response_ended(done("resp_1", 7))
    rates.response_ended(done("resp_1", 7))
    rates.response_ended(done("resp_2", 7))
    assert rates.tokens_today("a") == 7


def test_sockets_are_counted_in_and_out() -> None:
    """A principal has so many sockets at once, and all together so many."""
    rates = Rates(Limits(max_connections=2, max_sockets=3))
    with rates.socket("a"), rates.socket("a"), rates.socket("b"):
        assert rates.num_sockets == 3
        for principal, limit in (("a", 2), ("c", 3)):
            with pytest.raises(RateLimited) as refused, rates.socket(principal):
                pass
            assert refused.value.details == {"limit": limit, "used": limit, "kind": "connections"}
    assert rates.num_sockets == 0
    with rates.socket("c"):
        assert rates.num_sockets == 1


def test_those_who_are_gone_are_forgotten() -> None:
    """A principal that has asked nothing for a minute takes no memory."""
    clock = Clock()
    rates = Rates(Limits(requests_per_minute=1), clock)
    for number in range(10_000):
        rates.begin(f"old {number}")
    clock.now += 60
    rates.begin("new")
    assert len(rates._buckets) == 1
