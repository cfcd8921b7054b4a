"""Goals of `bench cpu`: what reaches a stretch, a floor, or neither."""

from __future__ import annotations

import pytest

from radixchat.bench.cpu_goals import (
    Verdict,
    exactness_verdict,
    ratio_verdicts,
    start_verdict,
)
from radixchat.bench.cpu_load import FULL, Load


@pytest.mark.parametrize(
    ("value", "reached"), [(3.1, "stretch"), (3.0, "stretch"), (2.0, "floor"), (1.99, "missed")]
)
def test_more_is_better_of_a_ratio(value: float, reached: str) -> None:
    """A bound itself is reached."""
    verdict = Verdict("T2", "prefill", value, 2.0, 3.0, at_least=True, unit="x")
    assert verdict.reached == reached
    assert verdict.line().endswith("MISSED" if reached == "missed" else f"{reached} reached")


@pytest.mark.parametrize(
    ("seconds", "reached"), [(2.9, "stretch"), (3.0, "stretch"), (6.0, "floor"), (6.1, "missed")]
)
def test_less_is_better_of_a_start(seconds: float, reached: str) -> None:
    """L8."""
    assert start_verdict(seconds).reached == reached


def test_ratios_are_judged_where_both_were_measured() -> None:
    """T1 at two contexts, T2, T3; a load that is no goal is left out."""
    ours = dict.fromkeys(FULL.loads, 300.0)
    peer = dict.fromkeys(FULL.loads, 150.0)
    found = list(ratio_verdicts(ours, peer))
    assert [(each.goal, each.reached) for each in found] == [
        ("T1", "stretch"),
        ("T1", "stretch"),
        ("T2", "floor"),
        ("T3", "floor"),
    ]
    assert {each.value for each in found} == {2.0}
    some = Load("decode", 1024)
    assert [each.what for each in ratio_verdicts({some: 1.0}, peer)] == [
        "decode at 1,024, ours to the peer"
    ]


def test_exactness_is_judged_where_it_costs_most() -> None:
    """T5: what is faster with it costs nothing; half as fast is half of the tokens."""
    one, two = Load("decode", 16), Load("prefill", 512)
    verdict = exactness_verdict({one: 110.0, two: 95.0}, {one: 100.0, two: 100.0})
    assert "prefill of 512" in verdict.what
    assert verdict.value == pytest.approx(0.05)
    assert verdict.reached == "floor"
    assert exactness_verdict({one: 50.0}, {one: 100.0}).reached == "missed"
    assert exactness_verdict({one: 101.0}, {one: 100.0}).reached == "stretch"
