"""A replay's result as one self-contained HTML page: curves, table, facts, what is left out.

No script, no font and no picture from elsewhere: it can be mailed and read offline, in the light
and in the dark, on a phone. Everything that comes from the trace is escaped.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from radixchat.bench.capacity import show_tokens
from radixchat.bench.replay_result import ArmResult, ReplayResult
from radixchat.bench.replay_summary import sentences, telling_capacity
from radixchat.bench.replay_table import COLUMNS, cells, fact_list, notes, turn_name, turn_numbers
from radixchat.bench.report_chart import MARKERS, Axis, Series, legend, line_chart
from radixchat.bench.report_style import STYLE

_HEAD = (
    "capacity, tokens",
    "cache",
    "hit rate",
    "of infinite",
    "reference LRU",
    "optimum",
    "evicted tokens",
    "µs per match",
    "µs per insert",
    "µs per evicted page",
    "index bytes per token",
)
_COLOURS = 8
# How far right of the largest size an unlimited cache stands, in powers of ten.
_BEYOND = 0.3


def write_report(path: Path, result: ReplayResult) -> None:
    """Write the page; whoever reads `path` meanwhile sees the old one, or the new one whole.

    Raises OSError where it cannot be written; then `path` is as it was. A link stays a link, and
    a pipe or a device is written to: it is nothing to be replaced.
    """
    page = report_page(result).encode(errors="replace")  # half a surrogate pair, in a file name
    if path.exists() and not path.is_file():
        path.write_bytes(page)
        return
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        # mkstemp's files are for their owner alone; a report is an ordinary file.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)  # gone already, if it took the report's place


def report_page(result: ReplayResult) -> str:
    """The whole page."""
    title = f"Prefix cache replay: {result.facts.name}"
    body = [
        f"<h1>How well would a cache serve <code>{escape(result.facts.name)}</code>?</h1>",
        f'<p class="lead">{_unbroken(" ".join(sentences(result)))}</p>',
        *_curves(result),
        *_turn_chart(result),
        "<h2>All numbers</h2>",
        _table(result),
        *_facts(result),
        f'<p class="small"><samp>{escape(result.command)}</samp><br>{escape(result.date)}, commit'
        f" {escape(result.commit)}, {escape(result.machine)}</p>",
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style></head>",
            "<body><main>",
            *body,
            "</main></body></html>",
            "",
        ]
    )


def _curves(result: ReplayResult) -> list[str]:
    """Hit rate over capacity: the bounds first, so that the caches lie on top of them."""
    sizes = list(dict.fromkeys(arm.capacity_tokens for arm in result.arms))
    largest = max((size for size in sizes if size), default=1)
    axis = Axis(
        "cache size in tokens, logarithmic" if len(sizes) > 1 else "cache size in tokens",
        tuple(math.log10(size) if size else math.log10(largest) + _BEYOND for size in sizes),
        tuple(show_tokens(size) if size else "no limit" for size in sizes),
    )
    at = {size: next(a for a in result.arms if a.capacity_tokens == size) for size in sizes}
    bounds = [
        ("infinite cache", "infinite", [result.infinite for _ in sizes]),
        ("offline optimum", "optimum", [at[size].optimum for size in sizes]),
        ("reference LRU", "reference", [at[size].reference_lru for size in sizes]),
    ]
    series = [Series(name, style, tuple(values), None) for name, style, values in bounds]
    for number, (name, arms) in enumerate(_by_name(result.arms)):
        rates = {arm.capacity_tokens: arm.hit_rate for arm in arms}
        values = tuple(rates.get(size) for size in sizes)
        series.append(Series(name, f"c{number % _COLOURS}", values, number % MARKERS))
    title = "Hit rate over cache size"
    return [f"<h2>{title}</h2>", _figure(title, axis, series)]


def _turn_chart(result: ReplayResult) -> list[str]:
    """Hit rate by turn at the size that the summary speaks of; nothing where turns are unknown."""
    capacity = telling_capacity(result)
    arms = [arm for arm in result.arms if arm.capacity_tokens == capacity]
    turns = turn_numbers(arms)
    if not turns:
        return []
    axis = Axis(
        "turn of the conversation",
        tuple(float(turn) for turn in turns),
        tuple(turn_name(turn) for turn in turns),
    )
    numbers = {name: number for number, (name, _) in enumerate(_by_name(result.arms))}
    series = []
    for arm in arms:
        rates = {rate.turn: rate.hit_rate for rate in arm.per_turn or ()}
        number = numbers[arm.name]
        values = tuple(rates.get(turn) for turn in turns)
        series.append(Series(arm.name, f"c{number % _COLOURS}", values, number % MARKERS))
    size = "without a limit" if capacity is None else f"at {show_tokens(capacity)} tokens"
    title = f"Hit rate by turn, {size}"
    return [f"<h2>{title}</h2>", _figure(title, axis, series)]


def _figure(title: str, axis: Axis, series: Sequence[Series]) -> str:
    return f"<figure>{line_chart(title, axis, series)}{legend(series)}</figure>"


def _table(result: ReplayResult) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in _HEAD)
    rows = []
    before: int | None = -1
    for arm in result.arms:
        first = ' class="first"' if arm.capacity_tokens != before else ""
        before = arm.capacity_tokens
        texts = [show_tokens(arm.capacity_tokens), arm.name, *cells(arm)]
        data = "".join(f"<td>{escape(text)}</td>" for text in texts)
        rows.append(f"<tr{first}>{data}</tr>")
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _facts(result: ReplayResult) -> list[str]:
    facts = [f"format: {result.facts.format}", *fact_list(result.facts)]
    meanings = [
        "Rates are fractions of the input tokens.",
        *COLUMNS,
        "Infinite cache: nothing is ever evicted. Offline optimum: the best that any policy can do"
        " at that size, knowing the future. Reference LRU: written independently of the index, with"
        " pages of one token, or of the trace's own blocks.",
        *notes(result),
    ]
    return [
        "<h2>The trace</h2>",
        _list(facts),
        "<h2>How to read this</h2>",
        _list(meanings),
    ]


def _unbroken(text: str) -> str:
    """Escaped, with every number kept on one line with its per cent sign."""
    return escape(text).replace(" %", "&nbsp;%")


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_unbroken(item)}</li>' for item in items)}</ul>"


def _by_name(arms: Sequence[ArmResult]) -> list[tuple[str, list[ArmResult]]]:
    """Every cache with its results, in the order of their first."""
    found: dict[str, list[ArmResult]] = {}
    for arm in arms:
        found.setdefault(arm.name, []).append(arm)
    return list(found.items())
