"""A conversation that goes on after a restart: with what is on the disk, and computed again.

\b
    radixchat bench restart [--tokens 2048] [--rounds 5] [--model NAME] [--json]

Both arms are processes: `radixchat chat` with three turns, whose prompt comes to --tokens, and its
end; then `radixchat chat -c` with one turn, again and again, the arms in turns. One has the disk
tier, the control has --disk-cache 0; all else is the same, so both have to say the same. The time
is the first token's after the turn was sent, as the process reports it: loading the model is in
neither. Before a start the system is asked to forget what it has of the pages in its own memory
(posix_fadvise), and what the process has read from a device is told. The exit code is 1 where a
goal's floor is missed or an answer differs; goals are judged from 1,024 tokens on. With the default
model on two cores it takes about two minutes.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path

import click

from radixchat.bench.bench_model import find_model
from radixchat.bench.cpu_arm import ArmFailed
from radixchat.bench.provenance import facts, machine
from radixchat.bench.restart_process import ChatProcess
from radixchat.bench.restart_result import (
    RestartArm,
    RestartResult,
    RestartTurn,
    as_document,
    lines,
)
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.errors import RadixChatError
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.engine.prompt import ChatMessage

TURNS = 3
QUESTION = "And then?"
DISK_CACHE = "1G"
# Most are one token to most models.
_WORDS = (
    *("river", "stone", "morning", "letter", "garden", "window", "paper", "winter", "summer"),
    *("yellow", "silver", "bridge", "market", "music", "forest", "island", "doctor", "engine"),
)


def long_texts(model: str, tokens: int, seed: int) -> list[str]:
    """What is said in TURNS turns, of about so many tokens together. Raises ModelLoadError."""
    encoder = TemplateEncoder.load(model)
    rng = random.Random(seed)
    texts = []
    for _ in range(TURNS):
        words = rng.choices(_WORDS, k=tokens // TURNS)
        prompt, _ = encoder.begin().turn([ChatMessage("user", " ".join(words))], None)
        texts.append(" ".join(words[: len(words) * (tokens // TURNS) // len(prompt)]))
    return texts


def restart(texts: list[str], model: str, rounds: int, threads: int | None) -> RestartResult:
    """Both arms, in folders that go. Raises ArmFailed."""
    turns: dict[str, list[RestartTurn]] = {"disk": [], "cold": []}
    with tempfile.TemporaryDirectory(prefix="radixchat-bench-") as parent:
        arms = [
            ChatProcess(name, model, threads, Path(parent) / name, size)
            for name, size in (("disk", DISK_CACHE), ("cold", "0"))
        ]
        for arm in arms:
            arm.chat(texts)
        asked = True
        for number in range(rounds):
            for arm in arms if number % 2 else reversed(arms):
                asked = arm.forget_pages() and asked
                turns[arm.name].append(arm.go_on(QUESTION))
    return RestartResult(RestartArm(tuple(turns["disk"])), RestartArm(tuple(turns["cold"])), asked)


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option(
    "--tokens", type=click.IntRange(min=96), default=2048, show_default=True,
    help="Of the conversation before the restart.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Restarts an arm."
)
@click.option("--threads", type=click.IntRange(min=1), help="[default: all cores]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def main(
    with_json: bool, model: str, tokens: int, rounds: int, threads: int | None, seed: int
) -> None:
    """Run both arms and print."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}, {model}")
    path = str(find_model(model))
    try:
        result = restart(long_texts(path, tokens, seed), path, rounds, threads)
    except (ArmFailed, RadixChatError) as error:
        raise click.ClickException(str(error)) from error
    verdicts = result.verdicts()
    click.echo("\n".join(lines(result)))
    click.echo("".join(f"\n{verdict.line()}" for verdict in verdicts))
    if with_json:
        config = {"tokens": tokens, "rounds": rounds, "threads": threads}
        head = facts("restart", load, model=model, seed=seed, config=config)
        click.echo(json.dumps(head | as_document(result)))
    missed = [each.what for each in verdicts if each.reached == "missed"]
    if not result.same:
        missed.append("the same answers")
    if missed:
        raise click.ClickException(f"below the floor: {', '.join(missed)}")


if __name__ == "__main__":
    main()
