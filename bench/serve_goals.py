"""What `bench serve` is to reach, L9: what an ideal cache finds, and a fraction of a peer's wait.

Judged for the load that the goal names, the default one, with a peer beside it. Knows no server.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.serve_load import ServeLoad
from radixchat.bench.serve_result import CellResult

PEER = "peer"
GOAL = "L9"
# Floor and stretch: of what an ideal cache finds; of the peer's time to the first token.
SHARE = (1.0, 1.0)
WAIT = (0.25, 0.125)


def verdicts(load: ServeLoad, cell: CellResult) -> Iterator[Verdict]:
    """None where the load is another one, or there is no peer; of the first arm."""
    ours, peer = cell.arms[0], next((arm for arm in cell.arms if arm.name == PEER), None)
    if load != ServeLoad() or cell.concurrency != 1 or peer is None:
        return
    if ours.hits is not None:
        share = ours.hits.of_oracle
        yield Verdict(GOAL, "cached, of what can be", share, *SHARE, at_least=True, unit="")
    if ours.later_ttft_ms is not None and peer.later_ttft_ms is not None:
        wait = ours.later_ttft_ms.p50 / peer.later_ttft_ms.p50
        what = "first token, turns 2+, to the peer"
        yield Verdict(GOAL, what, wait, *WAIT, at_least=False, unit="x")
