"""A replay's result as text for a terminal: facts, a table, turns, and what follows from them.

At most 100 columns wide. Knows no terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from radixchat.bench.capacity import DEFAULT_SHARES, show_tokens
from radixchat.bench.replay_result import LAST_TURN, ArmResult, ReplayResult, TraceFacts
from radixchat.bench.replay_summary import counted, percent, sentences
from radixchat.chat_cli.control_characters import neutral_line

WIDTH = 100
_HEAD = (
    ("", "capacity"),
    ("", "cache"),
    ("hit", "rate"),
    ("of", "infinite"),
    ("ref.", "LRU"),
    ("", "optimum"),
    ("evicted", "tokens"),
    ("µs per", "match"),
    ("µs per", "insert"),
    ("µs per", "ev. page"),
    ("index", "B/token"),
)
_LEFT = frozenset({1})
COLUMNS = (
    "A prompt's last token is always computed. Evicted tokens: those that had to make room.",
    "µs: mean time to match a prompt, to insert (commit) a prompt or a reply, to evict a page.",
    "Index B/token: its bytes per token cached at the end, notes on conversations included.",
)
"""What the columns mean, a line each."""


def replay_text(result: ReplayResult) -> str:
    """The whole text, without a last line break."""
    parts = [facts_text(result), "", *table(_HEAD, _rows(result)), ""]
    parts += [_wrapped(line) for line in COLUMNS]
    if any(arm.per_turn for arm in result.arms):
        parts += ["", "Hit rate by turn of the conversation:", "", *_turn_table(result)]
    parts += ["", *(_wrapped(note) for note in notes(result))]
    parts += [_wrapped(" ".join(sentences(result)))]
    return "\n".join(parts)


def facts_text(result: ReplayResult) -> str:
    """What the trace is, in two or three lines."""
    facts = result.facts
    lines = [f"{neutral_line(facts.name)} ({facts.format}): " + "; ".join(fact_list(facts))]
    lines.append(f"Infinite cache: {percent(result.infinite)} of the input tokens.")
    if not result.chosen_capacities:
        shares = ", ".join(f"{100 * share:.0f}" for share in DEFAULT_SHARES)
        lines.append(
            f"No --capacity was given: {shares} % of the distinct tokens, rounded, are tried; if"
            " none of them holds the largest request, a size that does as well."
        )
    if result.facts.taking_turns == 1:
        lines.append(
            "Each chat is replayed to its end before the next begins, as the trace does not tell"
            " who spoke when; --concurrency N lets N of them take turns."
        )
    return "\n".join(_wrapped(line) for line in lines)


def fact_list(facts: TraceFacts) -> list[str]:
    """The trace in numbers, one to a phrase."""
    mean = facts.tokens / facts.requests
    tokens, distinct = facts.tokens, facts.distinct_tokens
    replies = ", kept replies included" if facts.keeps_replies else ""
    found = [
        counted(facts.requests, "request"),
        f"{counted(tokens, 'input token', show_tokens(tokens))}, {mean:,.0f} a request,"
        f" at most {facts.longest_tokens:,}",
        counted(distinct, "distinct token", show_tokens(distinct)) + replies,
    ]
    if facts.unit_tokens > 1:
        found.append(f"blocks of {facts.unit_tokens} tokens")
    if facts.conversations:
        found.append(counted(facts.conversations, "conversation"))
    if (facts.taking_turns or 0) > 1:
        found.append(f"{facts.taking_turns:,} of them taking turns")
    if facts.namespaces > 1:
        found.append(f"{facts.namespaces:,} namespaces")
    if facts.quiet_lines:
        ask = "asks" if facts.quiet_lines == 1 else "ask"
        found.append(f"{counted(facts.quiet_lines, 'line')} {ask} nothing")
    return found


def notes(result: ReplayResult) -> Iterator[str]:
    """What a reader has to know: oversized requests, what a simulation leaves out."""
    for arm in result.arms:
        if arm.too_long:
            count = "they count" if arm.too_long > 1 else "it counts"
            leave = "leave" if arm.too_long > 1 else "leaves"
            yield (
                f"{arm.name}, {show_tokens(arm.capacity_tokens)} tokens:"
                f" {counted(arm.too_long, 'request')} could never fit; {count} as missed and"
                f" {leave} the cache alone."
            )
    roomy = max((arm.roomy_tokens for arm in result.arms if arm.too_long), default=None)
    if roomy is not None:
        yield f"So that every request fits, try --capacity {roomy}."
    for engine, ignores in dict.fromkeys((arm.engine, arm.ignores) for arm in result.arms):
        if ignores:
            yield f"{engine} is a simulation: {ignores}"


def turn_numbers(arms: Sequence[ArmResult]) -> list[int]:
    """The turns that any of the caches has a rate for, ascending."""
    return sorted({rate.turn for arm in arms for rate in arm.per_turn or ()})


def turn_name(turn: int) -> str:
    """The turn, or "10+" for the last, which is several."""
    return f"{turn}+" if turn == LAST_TURN else str(turn)


def table(head: Sequence[tuple[str, ...]], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart under a head of several lines; a row that is empty is a gap."""
    widths = [
        max(map(len, (*title, *(row[column] for row in rows if row))))
        for column, title in enumerate(head)
    ]
    heads = [[title[line] for title in head] for line in range(len(head[0]))]
    return [
        "  ".join(
            f"{cell:<{width}}" if column in _LEFT else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        if row
        else ""
        for row in (*heads, *rows)
    ]


def cells(arm: ArmResult) -> list[str]:
    """A cache's numbers, in the order of the table's columns from the third on."""

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:,.1f}"

    share = arm.hit_rate / arm.infinite if arm.infinite else None
    return [
        percent(arm.hit_rate),
        percent(share),
        percent(arm.reference_lru),
        percent(arm.optimum),
        show_tokens(arm.evicted_tokens),
        number(arm.us_per_match),
        number(arm.us_per_insert),
        number(arm.us_per_evicted_page),
        number(arm.index_bytes_per_token),
    ]


def _rows(result: ReplayResult) -> list[list[str]]:
    rows: list[list[str]] = []
    for arm, is_first in _grouped(result.arms):
        if is_first and rows:
            rows.append([])
        rows.append([show_tokens(arm.capacity_tokens) if is_first else "", arm.name, *cells(arm)])
    return rows


def _turn_table(result: ReplayResult) -> list[str]:
    turns = turn_numbers(result.arms)
    rows = []
    for arm, is_first in _grouped(result.arms):
        rates = {rate.turn: rate for rate in arm.per_turn or ()}
        row = [percent(rates[turn].hit_rate if turn in rates else None) for turn in turns]
        rows.append([show_tokens(arm.capacity_tokens) if is_first else "", arm.name, *row])
    requests = {rate.turn: rate.requests for rate in result.arms[0].per_turn or ()}
    rows.append(["", "requests", *(f"{requests.get(turn, 0):,}" for turn in turns)])
    return table([("capacity",), ("cache",), *((turn_name(turn),) for turn in turns)], rows)


def _grouped(arms: Sequence[ArmResult]) -> Iterator[tuple[ArmResult, bool]]:
    """Every cache, with whether it is the first of its size."""
    for before, arm in zip((None, *arms), arms, strict=False):
        yield arm, before is None or before.capacity_tokens != arm.capacity_tokens


def _wrapped(text: str) -> str:
    """Lines of WIDTH; a number stays on the line of its per cent sign."""
    joined = text.replace(" %", "\xa0%")
    return textwrap.fill(joined, WIDTH, break_on_hyphens=False).replace("\xa0%", " %")
