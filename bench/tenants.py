"""Whether one tenant of a server can tell what another one has sent (C5).

The second sends each text of the first, and one that nobody has sent, in random order; the times to
the first token of both are compared by a Kolmogorov-Smirnov test, and cached tokens of a tenant's
prompt that it has not sent itself are counted. The control, both under one key, is caught by both.
With the default model on two cores it takes about three minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from radixchat.bench.bench_model import find_model
from radixchat.bench.provenance import facts
from radixchat.bench.tenants_run import TenantsArm, tenants_arm
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.server.local import LocalSettings, open_host

APART, TOGETHER = "two tenants", "one key (control)"
# Floors of the goal: what is of one distribution passes nine times in ten and more; the control
# is never taken for it.
MIN_P, MAX_CONTROL_P = 0.05, 1e-3


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option("--probes", default=250, show_default=True, type=click.IntRange(8, 10_000))
@click.option("--words", default=100, show_default=True, type=click.IntRange(1, 2_000))
@click.option("--seed", default=1, show_default=True)
def main(with_json: bool, model: str, probes: int, words: int, seed: int) -> None:
    """Measure both arms; exit 1 where a floor does not hold."""
    find_model(model)
    load = os.getloadavg()[0]
    arms = asyncio.run(_measure(model, probes, words, seed))
    for line in table(arms):
        click.echo(line)
    failures = broken(arms)
    for failure in failures:
        click.echo(f"FAILED: {failure}", err=True)
    if with_json:
        document = facts("tenants", load, model=model, probes=probes, words=words, seed=seed)
        click.echo(json.dumps({**document, "arms": [asdict(arm) for arm in arms]}))
    if failures:
        raise SystemExit(1)


async def _measure(model: str, probes: int, words: int, seed: int) -> list[TenantsArm]:
    async with open_host(LocalSettings(model)) as host:
        return [
            await tenants_arm(host, APART, "ann", "bob", probes, words, seed),
            await tenants_arm(host, TOGETHER, "eve", "eve", probes, words, seed + 1),
        ]


def table(arms: Sequence[TenantsArm]) -> Iterator[str]:
    """Times to the first token, and what they tell."""
    yield "ms to the first token    sent by the other    sent by nobody    foreign"
    yield "                            p50      p99       p50      p99     tokens   distance   p"
    for arm in arms:
        yield (
            f"{arm.name:<20}{arm.known.p50:>11.1f}{arm.known.p99:>9.1f}{arm.fresh.p50:>10.1f}"
            f"{arm.fresh.p99:>9.1f}{arm.foreign_tokens:>11,}{arm.distance:>11.3f}   {arm.p:.3g}"
        )


def broken(arms: Sequence[TenantsArm]) -> list[str]:
    """What of the goal does not hold, in sentences."""
    apart, together = arms
    found = []
    if apart.foreign_tokens:
        found.append(f"{apart.foreign_tokens} tokens of another tenant were cached for this one")
    if apart.p <= MIN_P:
        found.append(
            f"the times differ between what the other sent and what nobody did: {apart.p:.3g}"
        )
    if not together.foreign_tokens or together.p >= MAX_CONTROL_P:
        found.append(f"the control was not caught: {together.foreign_tokens}, {together.p:.3g}")
    return found
