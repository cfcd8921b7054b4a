"""What a growing conversation costs per turn: time to first token with the cache on and off.

\b
    radixchat bench chat [--model NAME] [--turns 10] [--new-tokens 60] [--answer 20]

Both arms run in this process, turn by turn, on the same tokens, and must sample the same ones. The
cached tokens of each turn stand beside the oracle: everything computed before, less the last
sampled token, which has no KV. Times depend on what else the machine does: its load average comes
first. The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass

import click

from radixchat.bench.bench_model import greedy, load_model
from radixchat.bench.provenance import commit, machine
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class TurnCost:
    """One turn in one arm; times in milliseconds."""

    ttft_ms: float
    cached: int
    tokens: tuple[int, ...]
    tokens_per_second: float


def run_turn(engine: Engine, prompt: list[int], answer: int, request_id: int) -> TurnCost:
    """Answer one prompt alone."""
    started = time.perf_counter()
    engine.submit(Request(request_id, list(prompt), greedy(answer)))
    tokens: list[int] = []
    arrivals: list[float] = []
    cached = 0
    while engine.has_work:
        for event in engine.step():
            if event.token is not None:
                tokens.append(event.token)
                arrivals.append(time.perf_counter())
            if event.usage is not None:
                cached = event.usage.cached_tokens
    span = arrivals[-1] - arrivals[0]
    rate = (len(tokens) - 1) / span if span else 0.0
    return TurnCost((arrivals[0] - started) * 1000, cached, tuple(tokens), rate)


def converse(checkpoint: Checkpoint, turns: int, new_tokens: int, answer: int, seed: int) -> None:
    """Run both arms side by side and print the table and the JSON line."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, seed {seed}")
    rng = random.Random(seed)
    vocabulary = checkpoint.config.vocab_size
    arms = {
        name: Engine(checkpoint, EngineConfig(prefix_cache=name == "cached"))
        for name in ("cached", "uncached")
    }
    for engine in arms.values():  # warm-up of the shapes, on a prefix of its own
        run_turn(engine, [0] * new_tokens, 4, 0)
    history: list[int] = []
    rows = []
    click.echo("turn  prompt  cached  oracle   ttft on   ttft off   tok/s on   tok/s off")
    for turn in range(1, turns + 1):
        oracle = max(0, len(history) - 1)
        history += [rng.randrange(3, vocabulary) for _ in range(new_tokens)]
        on, off = (run_turn(engine, history, answer, turn) for engine in arms.values())
        assert on.tokens == off.tokens, "the cache is visible"
        click.echo(
            f"{turn:4}  {len(history):6}  {on.cached:6}  {oracle:6}  {on.ttft_ms:6.0f} ms"
            f"  {off.ttft_ms:6.0f} ms  {on.tokens_per_second:9.1f}  {off.tokens_per_second:10.1f}"
        )
        rows.append(
            {
                "turn": turn,
                "prompt_tokens": len(history),
                "cached_tokens": on.cached,
                "oracle_tokens": oracle,
                "ttft_ms": round(on.ttft_ms, 1),
                "ttft_uncached_ms": round(off.ttft_ms, 1),
            }
        )
        history += on.tokens
    click.echo(
        json.dumps(
            {
                "bench": "chat",
                "commit": commit(),
                "machine": machine(),
                "load": round(load, 2),
                "seed": seed,
                "ttft_last_over_first": round(rows[-1]["ttft_ms"] / rows[0]["ttft_ms"], 3),
                "ttft_last_over_first_uncached": round(
                    rows[-1]["ttft_uncached_ms"] / rows[0]["ttft_uncached_ms"], 3
                ),
                "per_turn": rows,
            }
        )
    )


@click.command(help=__doc__)
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--new-tokens", type=click.IntRange(min=2), default=60, show_default=True)
@click.option("--answer", type=click.IntRange(min=2), default=20, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(model: str, turns: int, new_tokens: int, answer: int, seed: int) -> None:
    """Load the model and run."""
    converse(load_model(model), turns, new_tokens, answer, seed)


if __name__ == "__main__":
    main()
