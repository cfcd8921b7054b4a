"""What guessing from the conversation's own text saves: with and without, the same tokens.

\b
    radixchat bench speculation [--model NAME] [--answer 128] [--rounds 1] [--json]

The edit-and-repeat set asks for texts with a change, for edited questions again and for second
answers; open chat asks for what was not said before. Each task is answered with guesses and
without, in turn, and both must say the same and cache the same. Times begin with the step that
gives the first token, and depend on what else the machine does: its load average comes first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from radixchat.bench.bench_model import load_model
from radixchat.bench.provenance import facts, machine
from radixchat.bench.speculation_run import Comparison, SpeculationRun, SpeculationShows
from radixchat.bench.speculation_set import CHAT, EDIT_AND_REPEAT, Task, tasks
from radixchat.engine.errors import InvalidRequest, ModelLoadError
from radixchat.engine.model_store import DEFAULT_MODEL, ModelStore
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint

EDIT_AND_REPEAT_SET = "edit and repeat"
_HEADER = (
    "kind             task      tokens  tok/s off  tok/s on  faster  tokens/step  guessed  right"
)


def load_tokenizer(model: str, checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a model that was loaded; raises ModelLoadError."""
    if checkpoint.fields is not None:
        return Tokenizer.from_gguf(checkpoint.fields)
    path = ModelStore.default().find(model)
    assert path is not None, "the model was loaded from there"
    return Tokenizer.from_directory(path)


def totals(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Each kind together, and the edit-and-repeat set as a whole before the others."""
    kinds = list(dict.fromkeys(each.kind for each in comparisons))
    groups = [(EDIT_AND_REPEAT_SET, EDIT_AND_REPEAT), *((kind, (kind,)) for kind in kinds)]
    members = [
        (name, [each for each in comparisons if each.kind in group]) for name, group in groups
    ]
    return [Comparison.total(name, "together", each) for name, each in members if each]


def lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The table: each task, then the sums."""
    yield _HEADER
    for each in comparisons:
        yield _line(each)
    yield ""
    for each in totals(comparisons):
        yield _line(each)


def _line(each: Comparison) -> str:
    right = "–" if each.acceptance is None else f"{each.acceptance:.0%}"
    return (
        f"{each.kind:<15}  {each.name:<8}  {each.plain.tokens:>6}"
        f"  {each.plain.tokens_per_second:>9.1f}  {each.guessing.tokens_per_second:>8.1f}"
        f"  {each.speedup:>5.2f}x  {each.tokens_per_step:>11.2f}  {each.guessing.guessed:>7}"
        f"  {right:>5}"
    )


def as_dict(each: Comparison) -> dict[str, object]:
    """One line of the table, for scripts; null where nothing was guessed."""
    acceptance = None if each.acceptance is None else round(each.acceptance, 4)
    return asdict(each) | {
        "speedup": round(each.speedup, 4),
        "tokens_per_step": round(each.tokens_per_step, 4),
        "acceptance": acceptance,
    }


def measure(run: SpeculationRun, chosen: Sequence[Task], rounds: int) -> list[Comparison]:
    """Every task `rounds` times, each task's answers together.

    Raises SpeculationShows and InvalidRequest.
    """
    found: list[list[Comparison]] = [[] for _ in chosen]
    for number in range(rounds):
        for task, before in zip(chosen, found, strict=True):
            before.append(run.compare(task))
            click.echo(f"{number + 1}: {task.kind}, {task.name} is done", err=True)
    return [Comparison.total(each[0].kind, each[0].name, each) for each in found]


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option(
    "--answer", type=click.IntRange(min=2), default=128, show_default=True,
    help="Tokens of an answer, at most.",
)  # fmt: skip
@click.option(
    "--kind", "kinds", type=click.Choice([*EDIT_AND_REPEAT, CHAT]), multiple=True,
    help="Only tasks of this kind; may be given more than once.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(min=1), default=1, show_default=True,
    help="How often each task is measured.",
)  # fmt: skip
def main(with_json: bool, model: str, answer: int, kinds: tuple[str, ...], rounds: int) -> None:
    """Load the model, compare, print."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, {model}")
    click.echo()
    checkpoint = load_model(model)
    chosen = [task for task in tasks() if not kinds or task.kind in kinds]
    try:
        run = SpeculationRun(checkpoint, load_tokenizer(model, checkpoint), answer)
        comparisons = measure(run, chosen, rounds)
    except (ModelLoadError, InvalidRequest, SpeculationShows) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(lines(comparisons)))
    if with_json:
        document = facts(
            "speculation",
            load,
            model=model,
            config={"answer": answer, "kinds": kinds, "rounds": rounds},
            totals=[as_dict(each) for each in totals(comparisons)],
            tasks=[as_dict(each) for each in comparisons],
        )
        click.echo(json.dumps(document))


if __name__ == "__main__":
    main()
