"""Prompts, answers and starts on this CPU: ours beside llama.cpp, on the same file and threads.

\b
    radixchat bench cpu [--peer llama-cpp] [--peer no-exact] [--model NAME] [--json]

Each arm is a process of its own; every load goes through all arms in turn, several times, and
medians count. Decoding: a token a step for one answer behind 16, 1,024 and 4,096 tokens, and for
eight together; nothing is guessed. Prefill: a new prompt up to its first token. A start is
`radixchat chat` from its first instruction to the first byte of its answer. The memory's bandwidth
is measured too, and says how much faster a decode step could be.

The peer llama-cpp is llama-cpp-python's low-level interface with its own defaults; it may live in
another environment (--peer-python). The peer no-exact is the product with --no-exact: torch's own
arithmetic, on a GGUF's weights unpacked to fp32. With a peer the exit code is 1 where a goal's
floor is missed. Times depend on what else the machine does: its load average comes first. With the
default model on two cores it takes about four minutes, with --quick half a minute.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace

import click

from radixchat.bench.bench_model import find_model
from radixchat.bench.cpu_arm import ArmFailed
from radixchat.bench.cpu_load import FULL, PARTS, QUICK
from radixchat.bench.cpu_result import LLAMA_CPP, NO_EXACT, as_document, lines
from radixchat.bench.cpu_run import Arms, run
from radixchat.bench.name_list import name_list
from radixchat.bench.provenance import facts, machine
from radixchat.engine.cores import usable_cores
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_store import DEFAULT_MODEL


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option(
    "--peer", "peers", type=click.Choice([LLAMA_CPP, NO_EXACT]), multiple=True,
    help="Whom to run beside ours; may be given twice.",
)  # fmt: skip
@click.option(
    "--peer-python", default=sys.executable, metavar="PATH",
    help="The Python (3.11 or newer) that has llama-cpp-python.  [default: this one]",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), help="[default: all cores]")
@click.option(
    "--only", "parts", default=",".join(PARTS), show_default=True, callback=name_list(PARTS),
    help="Which parts; together: eight answers.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), help="Of each load.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--quick", is_flag=True, help="Small loads: to see that it runs; no goal is judged.")
def main(
    with_json: bool,
    model: str,
    peers: tuple[str, ...],
    peer_python: str,
    threads: int | None,
    parts: tuple[str, ...],
    repeats: int | None,
    seed: int,
    quick: bool,
) -> None:
    """Run the arms and print."""
    load = os.getloadavg()[0]
    effort = QUICK if quick else FULL
    effort = replace(effort, repeats=repeats or effort.repeats)
    path = find_model(model)
    if path.is_dir() and LLAMA_CPP in peers:
        raise click.ClickException(f"llama-cpp reads .gguf files, and {model} is a folder")
    arms = Arms(path, threads or usable_cores(), peers, peer_python)
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}, {model}, {arms.threads} threads")
    try:
        result = run(arms, effort, parts, seed)
    except (ArmFailed, ModelLoadError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(lines(result)))
    verdicts = [] if quick else result.verdicts()
    click.echo("".join(f"\n{verdict.line()}" for verdict in verdicts))
    if with_json:
        config = asdict(effort) | {"threads": arms.threads, "peers": peers, "parts": parts}
        head = facts("cpu", load, model=model, seed=seed, config=config)
        click.echo(json.dumps(head | as_document(result, verdicts)))
    missed = [verdict.goal for verdict in verdicts if verdict.reached == "missed"]
    if missed:
        raise click.ClickException(f"below the floor: {', '.join(dict.fromkeys(missed))}")


if __name__ == "__main__":
    main()
