"""What host memory and disk below the pool save, and what they may not cost.

Each measurement has its control in the same run. cycle: a working set of three times the pool, with
host memory and without. gate: a store that takes 10 ms a page, with the gate, without it, and no
store; and quick stores. policies: what each write policy has on the disk when a process is killed,
and when it ends. background: questions beside pages that are read and written, and without. disk:
reads a page, and the quota at every moment.

The exit code is 1 where a goal's floor is missed. Times depend on what else the machine does: its
load average comes first. With the default model on two cores it takes about three minutes, with
--quick half a minute; --quick judges no goal that depends on time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import click

from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.parts import Part, part_options, run_parts
from radixchat.bench.tiers_background import BackgroundLoad, background, background_lines
from radixchat.bench.tiers_cycle import CycleLoad, cycle, cycle_lines
from radixchat.bench.tiers_disk import DiskLoad, disk_lines, disk_use
from radixchat.bench.tiers_gate import GateLoad, gate, gate_lines
from radixchat.bench.tiers_policies import PolicyLoad, policies, policy_lines


@dataclass(frozen=True, slots=True)
class Effort:
    """The loads of the measurements."""

    cycle: CycleLoad
    gate: GateLoad
    policies: PolicyLoad
    background: BackgroundLoad
    disk: DiskLoad


FULL = Effort(
    CycleLoad(prompts=4, tokens=1024),
    GateLoad(prompts=8, tokens=192),
    PolicyLoad(conversations=3, turns=3, new=64, answer=8),
    BackgroundLoad(rounds=40, text=384, question=16, answer=20),
    DiskLoad(prompts=6, tokens=160, pages=20),
)
# Fits a context of 512 tokens.
QUICK = Effort(
    CycleLoad(prompts=4, tokens=192),
    GateLoad(prompts=3, tokens=96, judged=False),
    PolicyLoad(conversations=2, turns=3, new=48, answer=4),
    BackgroundLoad(rounds=6, text=160, question=8, answer=8),
    DiskLoad(prompts=6, tokens=96, pages=12),
)


PARTS: Mapping[str, Part[Effort]] = MappingProxyType(
    {
        "cycle": Part(lambda model, e, seed: cycle(model, e.cycle, seed), cycle_lines),
        "gate": Part(lambda model, e, seed: gate(model, e.gate, seed), gate_lines),
        "policies": Part(lambda model, e, seed: policies(model, e.policies, seed), policy_lines),
        "background": Part(
            lambda model, e, seed: background(model, e.background, seed), background_lines
        ),
        "disk": Part(lambda model, e, seed: disk_use(model, e.disk, seed), disk_lines),
    }
)


def verdicts_of(result: Any) -> list[Verdict]:
    """A measurement's, if it judges anything."""
    judge: Callable[[], list[Verdict]] = getattr(result, "verdicts", list)
    return judge()


@click.command(help=__doc__)
@part_options(PARTS)
def main(with_json: bool, model: str, names: tuple[str, ...], seed: int, quick: bool) -> None:
    """Measure and print, one after the other."""
    document, results = run_parts("tiers", PARTS, names, model, QUICK if quick else FULL, seed)
    verdicts = [verdict for result in results for verdict in verdicts_of(result)]
    click.echo("".join(f"\n{verdict.line()}" for verdict in verdicts))
    if with_json:
        click.echo(json.dumps(document | {"goals": [each.as_dict() for each in verdicts]}))
    missed = [each.what for each in verdicts if each.reached == "missed"]
    if missed:
        raise click.ClickException(f"below the floor: {', '.join(missed)}")


if __name__ == "__main__":
    main()
