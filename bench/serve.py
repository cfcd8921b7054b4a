"""Chats with a server under load: first token, gaps, throughput, what it found in its cache.

\b
    radixchat bench serve [--url http://host:port] [--conversations 16] [--turns 6]
                          [--concurrency 8] [--peer-url http://host:port] [--json]

Loads any server that speaks OpenAI's chat completions over HTTP (ours, llama-server, vLLM), and
those that speak its Responses API over a WebSocket (--transport). Without --url a server of ours is
started for the run. In a round every conversation takes one turn, so many at a time; a peer and the
other transport get the same rounds in turn. What is cached is the server's own usage; beside it
stands what an unlimited cache would have found, for which the server or --tokenizer has to say how
texts become tokens. At the end the same is asked once more, cold: with something new at the front
of every prompt. Texts are new in every run, unless a --seed is given.

Gaps are per token: a piece of several tokens counts as so many gaps. The exit code is 1 where a
request fails, where the server says that more was cached than can have been (it knows the texts:
another --seed), and, with a peer and the default load, where a goal's floor is missed. Times depend
on what else the machine does: its load average comes first.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from radixchat.bench.name_list import name_list
from radixchat.bench.provenance import facts, machine
from radixchat.bench.serve_answer import AskFailed
from radixchat.bench.serve_goals import verdicts
from radixchat.bench.serve_load import ServeLoad
from radixchat.bench.serve_measure import Measured, measure
from radixchat.bench.serve_options import ServeOptions, length, read_counts, read_url
from radixchat.bench.serve_result import CellResult, as_document, request_lines
from radixchat.bench.serve_run import Settings
from radixchat.bench.serve_site import HTTP, TRANSPORTS
from radixchat.bench.serve_table import lines
from radixchat.engine.errors import ModelLoadError

_LOAD = ServeLoad()


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--url", callback=read_url, help="The server.  [default: one of ours is started]")
@click.option("--key", help="Its API key.")
@click.option(
    "--model",
    help="The name to ask it for; without --url the model to serve.  [default: the first it lists]",
)
@click.option(
    "--tokenizer", metavar="MODEL",
    help="An installed model that makes the same tokens, for servers that do not tell.",
)  # fmt: skip
@click.option(
    "--serve-flags", default="", help="More flags for the server of ours that is started."
)
@click.option("--peer-url", callback=read_url, help="A server to be loaded beside it, over HTTP.")
@click.option("--peer-key", help="Its API key.")
@click.option("--peer-model", help="The name to ask it for.")
@click.option(
    "--transport", "transports", default=HTTP, show_default=True, callback=name_list(TRANSPORTS),
    help=f"{' or '.join(TRANSPORTS)}, or both.",
)  # fmt: skip
@length("conversations", _LOAD.conversations, "")
@length("turns", _LOAD.turns, "Of each.")
@length("system-tokens", _LOAD.system, "Of the system prompt that all share.")
@length("message-tokens", _LOAD.message, "Of what a user says.")
@length("answer-tokens", _LOAD.answer, "Of an answer.")
@click.option("--edit", is_flag=True, help="At the end edit a middle turn, then go back.")
@click.option(
    "--concurrency", "concurrencies", default="1", show_default=True, metavar="N[,N]",
    callback=read_counts, help="Requests at a time; several numbers are so many cells.",
)  # fmt: skip
@click.option("--cold/--no-cold", default=True, help="Whether everything is asked again, cold.")
@click.option("--good-ttft", type=float, metavar="MS", help="Goodput: the latest first token.")
@click.option("--good-gap", type=float, metavar="MS", help="Goodput: the longest mean gap.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True,
    metavar="SECONDS", help="For one answer.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0),
    help="Of the texts; the same one again meets a cache that knows them.  [default: a new one]",
)  # fmt: skip
@click.option(
    "--requests", type=click.File("w", encoding="utf-8"),
    help="Write every turn of every arm there, one JSON object a line.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Little traffic: to see that it runs, not to measure.")
def main(**values: Any) -> None:
    """Load the servers and print."""
    options = ServeOptions(**values)
    load, seed = os.getloadavg()[0], options.drawn_seed()
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}")
    click.echo(f"{options.load}")
    settings = Settings(options.load, seed, options.timeout, options.cold)
    try:
        measured = asyncio.run(
            measure(
                options.target,
                options.peer,
                options.transports,
                options.concurrencies,
                settings,
            )
        )
    except (AskFailed, ModelLoadError) as error:
        raise click.ClickException(str(error)) from error
    cells = [CellResult.of(cell, measured.scored, options.goodput) for cell in measured.cells]
    click.echo("\n".join(_report(measured, cells)))
    for cell in measured.cells if options.requests is not None else ():
        click.echo("\n".join(request_lines(cell, measured.scored)), file=options.requests)
    judged = [verdict for cell in cells for verdict in verdicts(options.load, cell)]
    click.echo("".join(f"\n{verdict.line()}" for verdict in judged))
    if options.with_json:
        config = asdict(options.load) | {
            "concurrency": options.concurrencies,
            "arms": {each.name: each.about() for each in measured.arms},
        }
        model = measured.arms[0].site.model
        head = facts("serve", load, model=model, seed=seed, config=config)
        goals = [verdict.as_dict() for verdict in judged]
        click.echo(json.dumps(head | {"cells": as_document(cells), "goals": goals}))
    _fail_if_wrong(measured, cells)
    if missed := [verdict.goal for verdict in judged if verdict.reached == "missed"]:
        raise click.ClickException(f"below the floor: {', '.join(dict.fromkeys(missed))}")


def _report(measured: Measured, cells: list[CellResult]) -> Iterator[str]:
    for arm in measured.arms:
        yield f"{arm.name}: {arm.site.model} at {arm.site.url}, tokens by {arm.site.tokens.name}"
        if arm.is_plain:
            yield "  it knows OpenAI's options only: answers may end before their length"
    for cell in cells:
        yield ""
        yield from lines(cell)


def _fail_if_wrong(measured: Measured, cells: list[CellResult]) -> None:
    """Raise click.ClickException where what is printed means nothing."""
    for cell in cells:
        for arm in cell.arms:
            if arm.failed:
                raise click.ClickException(f"{arm.failed} requests of {arm.name}: {arm.failure}")
    if measured.beaten is not None:
        raise click.ClickException(f"the oracle is beaten, which is an error: {measured.beaten}")


if __name__ == "__main__":
    main()
