"""What it costs to show an answer as Markdown while it streams, beside printing it plainly.

Answers of a fixed seed, in pieces as large as tokens, are fed to the client's output on a real
pseudo-terminal: prose, lists, tables with emoji and CJK and long code blocks ("mixed"), and answers
that are one block only. Both ways in turn, several times; medians count. Time in which nothing
happens is skipped, so an answer of 50 seconds takes as long as its work.

\b
CPU s         of the process, for the whole answer, the terminal's driver included
of a core     what Markdown takes above plain printing, over the time of the answer; goal: < 5 %
shown after   from a token's arrival to its place on the screen
short, long   an answer of a tenth of the tokens, and the whole one: the work a token is bounded

The first token's way goes through the turn, from the event to the terminal; goal: < 20 ms. The exit
code is 1 where a goal is missed. With the defaults it takes about a minute.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from statistics import median

import click

from radixchat.bench.name_list import name_list
from radixchat.bench.percentiles import Percentiles
from radixchat.bench.provenance import facts, machine
from radixchat.bench.render_arm import COLUMNS, ROWS, Shown, first_token_ms, markdown, plain, show
from radixchat.bench.render_result import Rendering, lines, missed
from radixchat.bench.render_text import KINDS, pieces

_WARM_UP = 300
_FIRST_TOKENS = 20


def measure(kind: str, num_tokens: int, rate: float | None, repeats: int, seed: int) -> Rendering:
    """One kind of answer, both ways in turn."""
    text = pieces(kind, num_tokens, seed)
    for arm in (plain, markdown):
        show(text[:_WARM_UP], rate, arm)
    short = text[: max(1, num_tokens // 10)]
    arms = (plain, markdown)
    longs = [[show(text, rate, arm) for arm in arms] for _ in range(repeats)]
    shorts = [[show(short, rate, arm) for arm in arms] for _ in range(repeats)]
    above = [_above_us(runs, len(tokens)) for runs, tokens in ((shorts, short), (longs, text))]
    plains, markdowns = zip(*longs, strict=True)
    return Rendering(kind, len(text), rate, _median(markdowns), _median(plains), *above)


def _above_us(runs: Sequence[Sequence[Shown]], num_tokens: int) -> float:
    return 1e6 * median(rich.cpu_s - bare.cpu_s for bare, rich in runs) / num_tokens


def _median(runs: Sequence[Shown]) -> Shown:
    return sorted(runs, key=attrgetter("cpu_s"))[len(runs) // 2]


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--tokens", type=click.IntRange(min=10), default=10_000, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=200.0, show_default=True,
    help="Tokens a second. Each answer is shown without a pause too.",
)  # fmt: skip
@click.option(
    "--only", "kinds", default=",".join(KINDS), show_default=True,
    callback=name_list(tuple(KINDS)), help="Which answers.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def main(
    with_json: bool, tokens: int, rate: float, kinds: tuple[str, ...], repeats: int, seed: int
) -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    click.echo(
        f"{machine()}, load {load:.2f}, seed {seed}: answers of {tokens:,} tokens,"
        f" {COLUMNS} x {ROWS}, median of {repeats}"
    )
    renderings = [measure(kind, tokens, at, repeats, seed) for kind in kinds for at in (rate, None)]
    first_ms = Percentiles.of(first_token_ms(_FIRST_TOKENS))
    click.echo("\n".join(lines(renderings, first_ms)))
    if with_json:
        config = {"tokens": tokens, "rate": rate, "repeats": repeats, "kinds": kinds}
        document = facts("render", load, seed=seed, config=config)
        answers = [asdict(each) | each.as_document() for each in renderings]
        click.echo(json.dumps(document | {"answers": answers, "first_token_ms": asdict(first_ms)}))
    if found := missed(renderings, first_ms):
        raise click.ClickException(f"goals missed: {'; '.join(found)}")


if __name__ == "__main__":
    main()
