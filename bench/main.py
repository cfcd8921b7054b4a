"""`radixchat bench`: the benchmarks by name, each imported when it is called.

Knows no flag. Their one-line summaries are kept here: some of them import torch.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from types import FrameType, MappingProxyType

import click

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "replay": "How well a prefix cache would serve a trace of your traffic.",
        "index": "What the index costs: match, insert, evict, churn, memory.",
        "policies": "Eviction policies compared on a generated chat workload.",
        "chat": "What the cache saves a growing conversation, with a real model.",
        "speculation": "What guessing from the conversation's own text saves.",
        "engine": "The engine under a stated load, beside plainer engines.",
        "cpu": "Prompts, answers and starts on this CPU, beside llama.cpp.",
        "start": "From the start of a chat to its prompt and its first token.",
        "serve": "A server under load, over HTTP or WebSocket, beside a peer.",
        "tenants": "Whether one tenant can tell what another has sent.",
        "kv": "What INT8 KV costs and saves, on chats of yours.",
        "gpu": "Kernels and engine on a GPU, beside torch's own.",
        "render": "What it costs to show an answer as Markdown while it streams.",
        "latency": "What cache and scheduler cost, and how long others wait.",
        "tiers": "What host memory and disk below the pool save and cost.",
        "restart": "A conversation after a restart, with the disk tier and cold.",
    }
)


class Benchmarks(click.Group):
    """A group whose commands are the `main` of this package's modules."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a benchmark; SIGTERM and SIGHUP end it as an exit does, so temporary files go."""
        with ExitStack() as handlers:
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, _leave)
                    handlers.callback(signal.signal, number, signal.SIG_DFL)
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, the most useful first."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the benchmark of that name; None where there is none."""
        if cmd_name not in SUMMARIES:
            return None
        command = import_module(f"radixchat.bench.{cmd_name}").main
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of `--help`, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


bench = Benchmarks(
    "bench",
    help="Benchmarks, also of your own traffic; no GPU needed.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

if __name__ == "__main__":
    bench()
