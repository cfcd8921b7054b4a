"""What cache and scheduler cost, and how long anybody waits for somebody else.

Four measurements, each beside a control in the same run. overhead: prompts without reuse, with the
index and with none. gaps: a running answer while a long prompt arrives, in chunks and as one.
waiting: a request that the cache does not help, in a stream of those that it does, with the bound
on being overtaken, without, and first come, first served. refusal: a prompt that can never fit.
Times depend on what else the machine does: its load average comes first. With the default model on
two cores it takes about eight minutes, with --quick one to three.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import click

from radixchat.bench.latency_gaps import GapLoad, Gaps, gaps
from radixchat.bench.latency_overhead import Overhead, OverheadLoad, overhead
from radixchat.bench.latency_refusal import Refusal, RefusalLoad, refusal
from radixchat.bench.latency_waiting import WaitingArm, WaitingLoad, waiting
from radixchat.bench.parts import Part, part_options, run_parts


@dataclass(frozen=True, slots=True)
class Effort:
    """The loads of the four measurements."""

    overhead: OverheadLoad
    gaps: GapLoad
    waiting: WaitingLoad
    refusal: RefusalLoad


FULL = Effort(
    OverheadLoad(requests=24, running=8, prompt=192, answer=24, pool_tokens=3072),
    GapLoad(prompt=4096),
    WaitingLoad(requests=120, miss_every=15, quiet=45, waiting=6, prefix=2048, fresh=24),
    RefusalLoad(running=4, prompt=48, answer=32),
)
# Fits a context of 512 tokens.
QUICK = Effort(
    OverheadLoad(requests=12, running=4, prompt=60, answer=8, pool_tokens=512),
    GapLoad(prompt=320, step_tokens=16),
    WaitingLoad(
        requests=40, miss_every=5, quiet=20, waiting=4, prefix=400, fresh=8, max_overtaken=8
    ),
    RefusalLoad(running=3, prompt=24, answer=8),
)


def overhead_lines(result: Overhead) -> Iterator[str]:
    """What the index costs where it saves nothing."""
    yield (
        f"overhead: {result.requests} prompts without reuse ({result.cached_tokens} tokens cached,"
        f" {result.evicted_pages} pages evicted), {result.steps} steps, {result.wall_s:.1f} s"
    )
    yield f"  in the cache               {result.cache_share:>8.3%}  of the time"
    yield f"  per step                   {result.cache_ms_per_step:>8.3f}  ms"
    yield f"  in scheduler and cache     {result.scheduler_share:>8.3%}"
    yield (
        f"  time with / without index  {result.wall_ratio:>8.4f}, median of {result.steps} pairs of"
        f" steps {result.step_ratio:.4f}"
    )


def gap_lines(result: Gaps) -> Iterator[str]:
    """The pauses of an answer."""
    yield (
        f"gaps: a prompt of {result.prompt_tokens:,} tokens takes {result.prompt_alone_ms:,.0f} ms"
        f" alone, in {result.chunks} chunks; a chunk alone and a token alone {result.budget_ms:.0f}"
    )
    yield "  between an answer's tokens, ms    before    p50       p99       longest   p99 / both"
    for arm in result.arms:
        during = arm.gaps_ms
        yield (
            f"  {arm.name:<10} ({during.n:>3} gaps)             {arm.idle_ms.p50:>8.0f}"
            f"{during.p50:>7.0f}{during.p99:>10.0f}{during.max:>14.0f}{arm.over_budget:>14.2f}"
        )


def waiting_lines(arms: tuple[WaitingArm, ...]) -> Iterator[str]:
    """Who waited, and for how many others."""
    yield "waiting: a stream of requests that the cache helps, and some that it does not"
    yield "  scheduler        bound  overtaken   those not cached   hit rate   wait p50, p99, ms"
    for arm in arms:
        bound = "none" if arm.bound is None else str(arm.bound)
        misses = " ".join(map(str, arm.misses_overtaken))
        yield (
            f"  {arm.name:<15}{bound:>7}  {arm.overtaken:>9}   {misses:<17} {arm.hit_rate:>9.1%}"
            f"   {arm.wait_ms.p50:>7,.0f} {arm.wait_ms.p99:>7,.0f}   p99/p50 {arm.p99_over_p50:.1f}"
        )
    yield "  The bound is on how often somebody is overtaken. First come, first served waits least"
    yield "  here, as all requests that the cache helps find the same prefix: order saves nothing."


def refusal_lines(result: Refusal) -> Iterator[str]:
    """How fast, and at whose cost."""
    others = "did not notice" if result.unaffected else "were affected"
    yield (
        f"refusal: {result.refusals} prompts of {result.num_tokens:,} tokens, where the"
        f" {result.limited_by} admits {result.limit:,}: refused in at most"
        f" {result.longest_ms:.2f} ms; the others {others}"
    )


PARTS: Mapping[str, Part[Effort]] = MappingProxyType(
    {
        "overhead": Part(lambda model, e, seed: overhead(model, e.overhead, seed), overhead_lines),
        "gaps": Part(lambda model, e, seed: gaps(model, e.gaps, seed), gap_lines),
        "waiting": Part(lambda model, e, seed: waiting(model, e.waiting, seed), waiting_lines),
        "refusal": Part(lambda model, e, seed: refusal(model, e.refusal, seed), refusal_lines),
    }
)


@click.command(help=__doc__)
@part_options(PARTS)
def main(with_json: bool, model: str, names: tuple[str, ...], seed: int, quick: bool) -> None:
    """Measure and print, one after the other."""
    document, _ = run_parts("latency", PARTS, names, model, QUICK if quick else FULL, seed)
    if with_json:
        click.echo(json.dumps(document))


if __name__ == "__main__":
    main()
