"""The engine under a stated load: throughput, waiting times, what was cached, what it cost.

\b
    radixchat bench engine [--model NAME] [--conversations 20] [--rate 1] [--seed 0] --json
    radixchat bench engine --cache off --policy fcfs

Conversations arrive at random times whether or not those before are answered (open loop), share
system prompts and grow turn by turn. The same traffic is run through each arm, one after the other:
ours, without a cache, and first come, first served. Ours always runs; name one of the controls and
only that one runs beside it. All arms must give the same answers. Times depend on what else the
machine does: its load average comes first. With the default model on two cores it takes about three
minutes, with --quick half a minute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TextIO

import click

from radixchat.bench.bench_model import load_model
from radixchat.bench.engine_mix import QUICK, EngineMix
from radixchat.bench.engine_result import ArmResult, as_json, difference, lines, request_lines
from radixchat.bench.engine_run import ArmRun, drive
from radixchat.bench.provenance import facts, machine
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.errors import ConfigError
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.engine.weights import Checkpoint

OURS, CACHE_OFF, FCFS = "ours", "--cache off", "--policy fcfs"
# Room for the longest conversation, but for a third of all that is said: requests wait, and what is
# evicted meanwhile depends on their order. With 6,144 tokens first come, first served found as much
# as the longest prefix first.
POOL_TOKENS, QUICK_POOL_TOKENS = 3584, 512
MAX_RUNNING = 8


def arm_names(cache: str | None, policy: str | None) -> list[str]:
    """Which arms to run for the values of the two options."""
    if cache is None and policy is None:
        return [OURS, CACHE_OFF, FCFS]
    controls = ((cache == "off", CACHE_OFF), (policy == "fcfs", FCFS))
    return [OURS, *(name for asked, name in controls if asked)]


def arm_config(name: str, mix: EngineMix, pool_tokens: int) -> EngineConfig:
    """How an arm differs: in one setting."""
    waiting = max(EngineConfig().max_waiting, mix.conversations)  # nobody is refused
    ours = EngineConfig(pool_tokens=pool_tokens, max_running=MAX_RUNNING, max_waiting=waiting)
    if name == CACHE_OFF:
        return replace(ours, prefix_cache=False)
    return replace(ours, schedule="fcfs") if name == FCFS else ours


def run_arms(
    checkpoint: Checkpoint, mix: EngineMix, seed: int, names: Sequence[str], pool_tokens: int
) -> list[tuple[str, ArmRun]]:
    """The same plan through each arm; raises click.ClickException where an answer differs."""
    plan = mix.plan(seed, checkpoint.config.vocab_size)
    runs = []
    for name in names:
        engine = Engine(checkpoint, arm_config(name, mix, pool_tokens))
        if mix.longest > engine.plan.max_tokens:
            raise click.ClickException(
                f"a conversation may have {mix.longest} tokens, the model's context and a pool of"
                f" {pool_tokens} admit {engine.plan.max_tokens}; --quick needs {QUICK.longest}"
            )
        runs.append((name, drive(engine, plan)))
        click.echo(f"{name} is done", err=True)
    if (differs := difference(runs)) is not None:
        raise click.ClickException(f"{differs}: cache or scheduler changed an answer")
    return runs


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option(
    "--cache", type=click.Choice(["on", "off"]), help="off: beside ours, without a cache."
)
@click.option(
    "--policy", type=click.Choice(["lpm", "fcfs"]),
    help="fcfs: beside ours, whose next request is the one with the longest prefix cached, first"
    " come, first served.",
)  # fmt: skip
@click.option("--conversations", type=click.IntRange(min=1), help="How many begin.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="How many begin in a second."
)
@click.option(
    "--pool-tokens", type=click.IntRange(min=16), help="Tokens that the cache has room for."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--requests", type=click.File("w", encoding="utf-8"),
    help="Write every turn of every arm there, one JSON object a line.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Little traffic: to see that it runs, not to measure.")
def main(
    with_json: bool,
    model: str,
    cache: str | None,
    policy: str | None,
    conversations: int | None,
    rate: float | None,
    pool_tokens: int | None,
    seed: int,
    requests: TextIO | None,
    quick: bool,
) -> None:
    """Run the arms and print."""
    mix = QUICK if quick else EngineMix()
    mix = replace(mix, conversations=conversations or mix.conversations, rate=rate or mix.rate)
    pool_tokens = pool_tokens or (QUICK_POOL_TOKENS if quick else POOL_TOKENS)
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}, {model}")
    click.echo(f"{mix}; at most {MAX_RUNNING} run; the pool has {pool_tokens} tokens")
    click.echo()
    try:
        runs = run_arms(load_model(model), mix, seed, arm_names(cache, policy), pool_tokens)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    results = [ArmResult.of(name, run) for name, run in runs]
    click.echo("\n".join(lines(results)))
    for name, run in runs if requests is not None else ():
        click.echo("\n".join(request_lines(name, run)), file=requests)
    if with_json:
        config = {"mix": asdict(mix), "pool_tokens": pool_tokens, "max_running": MAX_RUNNING}
        head = facts("engine", load, model=model, seed=seed, config=config)
        click.echo(as_json(head, results))


if __name__ == "__main__":
    main()
