"""What the index itself costs: match, insert, evict, churn, growth, memory.

Measures the structure alone, without a model: integers in, integers out. Each control runs in the
same process: a trie walked token by token, an order of leaves that is built when it is needed, the
garbage collector left to itself. Times depend on the machine and on what else it does; the load
average is shown. Ratios and bytes do not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from radixchat.bench.capacity import parse_tokens, show_tokens
from radixchat.bench.index_costs import EvictionCosts, PathCosts, eviction_costs, path_costs
from radixchat.bench.index_endurance import (
    Churn,
    Footprint,
    Growth,
    Pauses,
    churn,
    footprint,
    growth,
    pauses,
)
from radixchat.bench.index_tree import PAGE_SIZE
from radixchat.bench.name_list import name_list
from radixchat.bench.provenance import commit, machine
from radixchat.radix.policies import POLICY_NAMES

_MEBIBYTE = 1 << 20
_EDGES = (64, 256)
_WATCHED = ("lru", "chat")  # slru and tlru make the same objects as lru


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: repeats of one operation, suffixes of the churn, and so on."""

    repeats: int = 200
    suffixes: int = 100_000
    tokens: int = 5_000
    leaves: int = 5_000
    nodes: int = 100_000


FULL = Effort()
QUICK = Effort(repeats=8, suffixes=500, tokens=200, leaves=200, nodes=500)


@dataclass(frozen=True, slots=True)
class IndexResult:
    """All that was measured."""

    seed: int
    load: float  # the one-minute load average when it began
    paths: tuple[PathCosts, ...]
    evictions: tuple[EvictionCosts, ...]
    churn: Churn
    growth: Growth
    footprints: tuple[Footprint, ...]
    pauses: tuple[Pauses, ...]

    def evict_ratio(self, policy: str) -> float:
        """The most that one evicted page costs at any size, over the least; 1 is flat."""
        costs = [each.evict_us for each in self.evictions if each.policy == policy]
        return max(costs) / min(costs)


def measure(sizes: list[int], policies: tuple[str, ...], seed: int, effort: Effort) -> IndexResult:
    """Everything, one after the other."""
    load = os.getloadavg()[0]
    repeats = effort.repeats
    return IndexResult(
        seed,
        load,
        tuple(path_costs(size, seed, repeats) for size in sizes),
        tuple(
            eviction_costs(policy, size, seed, max(4, repeats // 10))
            for policy in policies
            for size in sizes
        ),
        churn(effort.suffixes, seed),
        growth(effort.tokens, seed),
        tuple(
            footprint(policy, edge, effort.leaves, seed) for policy in policies for edge in _EDGES
        ),
        tuple(
            pauses(policy, effort.nodes, seed, by_hand=by_hand)
            for policy in policies
            if policy in _WATCHED
            for by_hand in (True, False)
        ),
    )


def lines(result: IndexResult) -> Iterator[str]:
    """The tables, as text."""
    yield f"{machine()}, load {result.load:.2f}, seed {result.seed}, pages of {PAGE_SIZE}"
    yield ""
    yield "2,048 tokens, µs      match list  match array  (trie)   insert, 128 new"
    for path in result.paths:
        yield (
            f"  {path.nodes:>7,} nodes  {path.match_list_us:>14.1f}  {path.match_array_us:>11.1f}"
            f"  {path.trie_us:>6.1f}  {path.insert_us:>16.1f}"
        )
    yield ""
    yield "evict, µs per page       one at a time    many  (free page)  (order rebuilt)"
    for policy in dict.fromkeys(each.policy for each in result.evictions):
        for each in (each for each in result.evictions if each.policy == policy):
            yield (
                f"  {policy:<5}{show_tokens(each.leaves):>5} leaves  {each.evict_us:>17.2f}"
                f"  {each.evict_many_us:>6.2f}  {each.take_us:>11.2f}  {each.rebuild_us:>15.0f}"
            )
        yield f"  {policy:<5} most / least  {result.evict_ratio(policy):>17.2f}"
    yield ""
    yield from _endurance(result)


def _endurance(result: IndexResult) -> Iterator[str]:
    worn, grown = result.churn, result.growth
    yield (
        f"churn: {worn.suffixes:,} suffixes, {worn.us_per_suffix:.1f} µs each;"
        f" nodes {worn.nodes_before} -> {worn.nodes_after}{_resident(worn)}"
    )
    yield (
        f"growth: {grown.tokens:,} tokens one by one, {grown.first_us:.1f} µs each at first,"
        f" {grown.last_us:.1f} at last; as many prompts, each a token longer:"
        f" {grown.prompts_us:.1f} µs, nodes at last {grown.prompts_nodes}"
    )
    yield f"depth: {grown.depth:,} nodes on one path, matched in {grown.deep_match_us:.0f} µs"
    yield ""
    yield "bytes per cached token   " + "".join(f"  leaves of {edge:>3}" for edge in _EDGES)
    for policy in dict.fromkeys(each.policy for each in result.footprints):
        costs = [each.bytes_per_token for each in result.footprints if each.policy == policy]
        yield f"  {policy:<23}" + "".join(f"{cost:>15.1f}" for cost in costs)
    if result.pauses:
        yield ""
        yield "collector's pauses, CPU ms         count     p50     p99  longest   total"
    for pause in result.pauses:
        kind = "every 100 requests" if pause.by_hand else "(automatic)"
        yield (
            f"  {pause.policy:<5}{kind:<25}  {pause.count:>6}  {pause.p50_ms:>6.2f}"
            f"  {pause.p99_ms:>6.2f}  {pause.longest_ms:>7.2f}  {pause.total_ms:>6.0f}"
        )


def _resident(worn: Churn) -> str:
    if worn.resident_before is None or worn.resident_after is None:
        return "; this system does not tell the memory of a process"
    before, after = worn.resident_before / _MEBIBYTE, worn.resident_after / _MEBIBYTE
    return f"; memory {before:.1f} -> {after:.1f} MiB"


def as_json(result: IndexResult) -> str:
    """One line with every number."""
    ratios = {each.policy: result.evict_ratio(each.policy) for each in result.evictions}
    facts = {"bench": "index", "commit": commit(), "machine": machine(), "page_size": PAGE_SIZE}
    return json.dumps(facts | asdict(result) | {"evict_ratio": ratios})


def _sizes(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    """Numbers of leaves like 1k,10k; ascending, none twice."""
    try:
        sizes = {parse_tokens(part) for part in text.split(",")}
    except ValueError as error:
        raise click.BadParameter(str(error).replace(" tokens", " leaves")) from error
    finite = sorted(size for size in sizes if size is not None)
    if len(finite) < len(sizes) or finite[0] < 64 or finite[-1] > 10**7:
        raise click.BadParameter(
            f"{text!r}: each must be at least 64 and at most 10M, so there is no inf"
        )
    return finite


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option(
    "--leaves", "sizes", default="1k,10k,100k", show_default=True, callback=_sizes,
    help="Of the trees that are measured, at least 64.",
)  # fmt: skip
@click.option(
    "--policy", "policies", default=",".join(POLICY_NAMES), show_default=True,
    callback=name_list(POLICY_NAMES), help="Eviction policies.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--quick", is_flag=True, help="Few repeats: to see that it runs, not to measure.")
def main(
    with_json: bool, sizes: list[int], policies: tuple[str, ...], seed: int, quick: bool
) -> None:
    """Measure and print."""
    result = measure(sizes, policies, seed, QUICK if quick else FULL)
    click.echo("\n".join(lines(result)))
    if with_json:
        click.echo(as_json(result))


if __name__ == "__main__":
    main()
