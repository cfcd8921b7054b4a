"""Eviction policies compared on a generated chat workload, or on a trace of your own.

\b
    radixchat bench policies [--conversations 2000] [--seeds 5] [--lengths sharegpt] [--shift]
    radixchat bench policies --trace FILE

For each policy the hit rate at a few capacities, given as shares of the distinct tokens, and how
much of the gap between LRU and the best possible it closes. "chat" is shown three times: as it is,
hearing only which conversations are closed and which branches were left, and hearing nothing from
the clients, which is what a stateless server has. The last line is one JSON object.

One seed's share of the gap is off by about three points, so that the mean is what counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean

import click

from radixchat.bench.policy_study import CONTENDERS, Study, Traffic, gap_closed, study
from radixchat.bench.provenance import commit, machine
from radixchat.bench.trace import TraceError, open_trace
from radixchat.bench.workload import ChatWorkload
from radixchat.bench.workload_habits import LENGTHS
from radixchat.bench.workload_summary import WorkloadSummary


def table(studies: Sequence[Study]) -> list[str]:
    """Lines: means over the studies, which are of equal shares; of a policy also the gap closed."""
    rows = list(zip(*(one.capacities for one in studies), strict=True))  # by capacity, then seed
    infinite = fmean(one.infinite for one in studies)
    optimum = [fmean(cell.optimum for cell in row) for row in rows]
    rates = {
        label: [fmean(cell.policies[label] for cell in row) for row in rows]
        for label in rows[0][0].policies
    }
    lines = ["policy".ljust(22) + "".join(f"{row[0].share:>14.0%}" for row in rows)]
    lines.append("infinite cache".ljust(22) + "".join(f"{infinite:>14.4f}" for _ in rows))
    lines.append("optimum (MIN)".ljust(22) + "".join(f"{rate:>14.4f}" for rate in optimum))
    for label, by_capacity in rates.items():
        cells = ""
        for rate, lru, best in zip(by_capacity, rates["lru"], optimum, strict=True):
            closed = gap_closed(rate, lru, best)
            cells += (
                f"{rate:>8.4f} {'' if label == 'lru' or closed is None else f'{closed:.0%}':>5}"
            )
        lines.append(label.ljust(22) + cells)
    harm = [chat - lru for chat, lru in zip(rates["chat"], rates["lru"], strict=True)]
    points = "".join(f"{100 * each:>+14.2f}" for each in harm)
    lines.append("chat - lru, points".ljust(22) + points)
    lines.append("% after a rate: how much of the gap between lru and the optimum it closes")
    return lines


def as_json(studies: Sequence[Study], seeds: Sequence[int], page_size: int) -> str:
    """One line with every number of every study. seeds: of the studies, empty for a trace."""
    return json.dumps(
        {
            "bench": "policies",
            "commit": commit(),
            "machine": machine(),
            "seeds": list(seeds),
            "page_size": page_size,
            "hears": {each.label: each.hearing.value for each in CONTENDERS},
            "studies": [asdict(one) for one in studies],
        }
    )


def shares_of(context: click.Context, parameter: click.Parameter, text: str) -> list[float]:
    """Percentages, separated by commas, as fractions."""
    try:
        shares = [float(part) / 100 for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no list of percentages like 20,10,5") from error
    if not all(0 < share <= 1 for share in shares):
        raise click.BadParameter(f"{text!r}: each must be above 0 and at most 100")
    return shares


@click.command(help=__doc__)
@click.option("--conversations", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--first-seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--lengths", type=click.Choice(list(LENGTHS)), default="chat", show_default=True,
    help="How long messages and conversations are.",
)  # fmt: skip
@click.option("--shift", is_flag=True, help="Habits turn into their opposite every hour.")
@click.option(
    "--capacities", default="50,20,10,5", show_default=True, callback=shares_of,
    help="Percentages of the distinct tokens.",
)  # fmt: skip
@click.option("--page-size", type=click.IntRange(min=1), default=16, show_default=True)
@click.option(
    "--trace", "--mooncake", "trace", metavar="FILE",
    help="A trace instead of the workload, read as `bench replay` does.",
)  # fmt: skip
def main(
    conversations: int,
    seeds: int,
    first_seed: int,
    lengths: str,
    shift: bool,
    capacities: list[float],
    page_size: int,
    trace: str | None,
) -> None:
    """Choose the traffic, study it, print."""
    try:
        if trace is not None:
            _study_trace(trace, capacities, page_size)
            return
        numbers = range(first_seed, first_seed + seeds)
        traffic = [ChatWorkload(seed, conversations, lengths, shift=shift) for seed in numbers]
        click.echo(f"workload {traffic[0].name}, page size {page_size}; seed {first_seed}:")
        click.echo("\n".join(WorkloadSummary.of(traffic[0]).lines()))
        studies = []
        for one in traffic:
            studies.append(_study(one, capacities, page_size))
            click.echo(f"seed {one.seed} is done", err=True)
    except (TraceError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _print(studies, list(numbers), page_size)


def _study_trace(path: str, capacities: Sequence[float], page_size: int) -> None:
    traffic = open_trace(path)
    if traffic.unit_tokens > 1:
        page_size = 1  # a trace of blocks has its own pages
    found = _study(traffic, capacities, page_size)
    click.echo(f"trace {traffic.name} ({traffic.format}), page size {page_size} units")
    _print([found], [], page_size)


def _study(traffic: Traffic, capacities: Sequence[float], page_size: int) -> Study:
    return study(traffic, CONTENDERS, capacities, page_size)


def _print(studies: Sequence[Study], seeds: Sequence[int], page_size: int) -> None:
    distinct = ", ".join(f"{one.distinct_tokens:,}" for one in studies)
    click.echo(f"distinct tokens: {distinct}; capacities are shares of them")
    click.echo()
    click.echo("\n".join(table(studies)))
    too_long = max(cell.too_long for one in studies for cell in one.capacities)
    if too_long:
        click.echo(f"up to {too_long} requests are larger than the smallest cache: always missed")
    click.echo(as_json(studies, seeds, page_size))


if __name__ == "__main__":
    main()
