"""The table of `bench serve`: a column for each arm, then the rounds. Knows no server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.serve_result import ArmResult, CellResult, HitRate

_TITLE, _COLUMN = 30, 17


def lines(cell: CellResult) -> Iterator[str]:
    """One cell's table."""
    arms = cell.arms
    yield f"{cell.concurrency} at a time"
    yield _row("", (each.name for each in arms))
    yield _row("requests (failed)", (f"{each.requests} ({each.failed})" for each in arms))
    yield _row("asked for, s", (f"{each.busy_s:.1f}" for each in arms))
    yield _row("requests a second", (f"{each.requests_per_second:.2f}" for each in arms))
    rates = (each.output_tokens_per_second for each in arms)
    yield _row("answer tokens a second", ("?" if r is None else f"{r:.1f}" for r in rates))
    yield from _hits(arms)
    if any(each.goodput is not None for each in arms):
        yield _row("good enough", (f"{each.goodput or 0:.1%}" for each in arms))
    for title, times in (
        ("first token", [each.ttft_ms for each in arms]),
        ("of turns 2 and later", [each.later_ttft_ms for each in arms]),
        ("between tokens", [each.gap_ms for each in arms]),
        ("last token", [each.e2e_ms for each in arms]),
    ):
        yield from _quantiles(title, times)
    yield ""
    yield from _rounds(arms)


def _hits(arms: Sequence[ArmResult]) -> Iterator[str]:
    def cells(shown: Callable[[HitRate], str]) -> Iterator[str]:
        return ("?" if each.hits is None else shown(each.hits) for each in arms)

    yield _row("prompt tokens", cells(lambda hits: f"{hits.prompt_tokens:,}"))
    yield _row("  cached", cells(lambda hits: f"{hits.cached_tokens:,} {hits.hit_rate:6.1%}"))
    yield _row(
        "  oracle", cells(lambda hits: f"{hits.oracle_tokens:,} {hits.oracle_hit_rate:6.1%}")
    )
    yield _row("  cached, of the oracle", cells(lambda hits: f"{hits.of_oracle:.1%}"))


def _quantiles(title: str, times: Sequence[Percentiles | None]) -> Iterator[str]:
    if all(each is None for each in times):
        return
    for index, share in enumerate((50, 90, 95, 99)):
        label = f"{title}, ms" if index == 0 else ""
        cells = ("?" if each is None else _shown(each.quantiles[index]) for each in times)
        yield _row(f"{label:<{_TITLE - 5}}p{share}", cells)


def _rounds(arms: Sequence[ArmResult]) -> Iterator[str]:
    yield _row("round: cached, first token", (each.name for each in arms))
    for name in dict.fromkeys(row.name for each in arms for row in each.per_turn):
        cells = []
        for each in arms:
            row = next((row for row in each.per_turn if row.name == name), None)
            share = "?" if row is None or row.hits is None else f"{row.hits.hit_rate:.1%}"
            time = "?" if row is None or row.ttft_ms is None else _shown(row.ttft_ms.p50)
            cells.append(f"{share} {time:>5} ms")
        found = (row for each in arms for row in each.per_turn if row.name == name)
        hits = next((row.hits for row in found if row.hits is not None), None)
        title = f"  {name}" if hits is None else f"  {name:<6}oracle {hits.oracle_hit_rate:.1%}"
        yield _row(title, cells)


def _shown(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"


def _row(title: str, cells: Iterable[str]) -> str:
    return title.ljust(_TITLE) + "".join(cell.rjust(_COLUMN) for cell in cells)
