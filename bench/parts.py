"""Measurements by name, of which a benchmark makes those that are asked for, one after the other.

Owns their options, how they are run and printed, and the JSON. Knows no measurement and no goal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from radixchat.bench.bench_model import load_model
from radixchat.bench.name_list import name_list
from radixchat.bench.provenance import facts, machine
from radixchat.engine.collector import GarbageCollector
from radixchat.engine.errors import RadixChatError
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.engine.weights import Checkpoint

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Effort = TypeVar("Effort", bound="DataclassInstance")
Main = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Part(Generic[Effort]):
    """A measurement, of a model, with its share of the effort and a seed; and how it is shown.

    Its result is a dataclass, or a tuple of some.
    """

    measure: Callable[[Checkpoint, Effort, int], Any]
    lines: Callable[[Any], Iterator[str]]


def part_options(parts: Mapping[str, object]) -> Callable[[Main], Main]:
    """The options of a benchmark that has parts of these names."""
    names = tuple(parts)
    options = (
        click.option("--json", "with_json", is_flag=True, help="End with one line of JSON."),
        click.option("--model", default=DEFAULT_MODEL, show_default=True),
        click.option(
            "--only", "names", default=",".join(names), show_default=True,
            callback=name_list(names), help="Which measurements.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
        click.option(
            "--quick", is_flag=True, help="Short loads: to see that it runs, not to measure."
        ),
    )  # fmt: skip

    def with_options(main: Main) -> Main:
        for option in reversed(options):
            main = option(main)
        return main

    return with_options


def run_parts(
    bench: str,
    parts: Mapping[str, Part[Effort]],
    names: tuple[str, ...],
    model: str,
    effort: Effort,
    seed: int,
) -> tuple[dict[str, object], list[Any]]:
    """Measure and print; the JSON document, and the results. Raises click.ClickException."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}, {model}")
    checkpoint = load_model(model)
    document = facts(bench, load, model=model, seed=seed, config=asdict(effort))
    results = []
    for name in names:
        try:
            with GarbageCollector():  # else it stops a step in the middle
                result = parts[name].measure(checkpoint, effort, seed)
        except RadixChatError as error:
            raise click.ClickException(f"{name}: {error}") from error
        click.echo()
        click.echo("\n".join(parts[name].lines(result)))
        several = isinstance(result, tuple)
        document[name] = [asdict(each) for each in result] if several else asdict(result)
        results.append(result)
    return document, results
