"""L9: judged for its own load and beside a peer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.serve_goals import verdicts
from radixchat.bench.serve_load import ServeLoad
from radixchat.bench.serve_result import ArmResult, CellResult, HitRate

ARM = ArmResult(
    name="http", transport="http", requests=48, failed=0, failure=None, busy_s=9.0,
    requests_per_second=5.0, output_tokens=9, output_tokens_per_second=1.0,
    hits=HitRate(1000, 930, 930, 0.93, 0.93), ttft_ms=Percentiles.of([100.0]),
    later_ttft_ms=Percentiles.of([100.0]), gap_ms=None, e2e_ms=None, goodput=None, per_turn=(),
)  # fmt: skip


def peer(milliseconds: float) -> ArmResult:
    return replace(ARM, name="peer", later_ttft_ms=Percentiles.of([milliseconds]))


@pytest.mark.parametrize(
    ("milliseconds", "reached"), [(900.0, "stretch"), (500.0, "floor"), (300.0, "missed")]
)
def test_the_wait_is_compared_with_the_peer_s(milliseconds: float, reached: str) -> None:
    """A quarter is the floor, an eighth the stretch."""
    share, wait = verdicts(ServeLoad(), CellResult(1, (ARM, peer(milliseconds))))
    assert (share.goal, share.reached) == ("L9", "stretch")
    assert (wait.goal, wait.reached) == ("L9", reached)


def test_all_that_can_be_found_has_to_be() -> None:
    """One token less misses the floor."""
    ours = replace(ARM, hits=HitRate(1000, 929, 930, 0.929, 0.93))
    share, _ = verdicts(ServeLoad(), CellResult(1, (ours, peer(900.0))))
    assert share.reached == "missed"
    assert "MISSED" in share.line()


def test_other_loads_judge_nothing() -> None:
    """Nor does a run without a peer, or with several requests at a time."""
    both = (ARM, peer(900.0))
    assert list(verdicts(ServeLoad(turns=3), CellResult(1, both))) == []
    assert list(verdicts(ServeLoad(), CellResult(8, both))) == []
    assert list(verdicts(ServeLoad(), CellResult(1, (ARM,)))) == []
