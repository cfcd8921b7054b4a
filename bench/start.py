"""From the start of `radixchat chat` to its prompt, and to the first token of its first answer.

Each start is a process in a pseudo-terminal of its own; one that does not count comes first, so
that files come from the system's cache and kernels are compiled. Medians count; goal: the prompt
within 1.0 s, the model being loaded behind it.

\b
chat       to the prompt of a new conversation
chat -c    to the prompt of one that is continued, its end above it
behind     to the first token of what is entered as soon as there is a prompt
waiting    to the first token of a question on the command line, which waits for the model
echo       from a key to its echo, while the model is loaded: the longest of each start

The exit code is 1 where the goal is missed. With the default model it takes about two minutes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

import click

from radixchat.bench.bench_model import find_model
from radixchat.bench.command import own_files
from radixchat.bench.cpu_start import our_start
from radixchat.bench.provenance import facts, machine
from radixchat.bench.start_terminal import StartFailed, StartTerminal
from radixchat.engine.model_store import DEFAULT_MODEL

GOAL_S = 1.0
_TYPING_S = 3.0
_ECHO = "echo"


def arms(model: str, threads: int | None, folder: Path) -> dict[str, Callable[[], float]]:
    """What each start of an arm measures, in seconds. model: a path. folder: all that they write
    is below it."""
    environment = own_files(folder)
    flags = ["--model", model, "--temperature", "0", "--max-tokens", "16"]
    if threads is not None:
        flags += ["--threads", str(threads)]
    return {
        "chat": lambda: _prompt(flags, environment),
        "chat -c": lambda: _prompt([*flags, "-c"], environment),
        "behind": lambda: _answer(flags, environment),
        "waiting": our_start("waiting", model, threads or os.cpu_count() or 1, folder).seconds,
        _ECHO: lambda: _longest_echo(flags, environment),
    }


def _prompt(flags: list[str], environment: Mapping[str, str]) -> float:
    with StartTerminal(flags, environment) as chat:
        return chat.prompt_s()


def _answer(flags: list[str], environment: Mapping[str, str]) -> float:
    with StartTerminal(flags, environment, piped=True) as chat:
        chat.prompt_s()
        chat.press("Hi\r")
        return chat.answer_s()


def _longest_echo(flags: list[str], environment: Mapping[str, str]) -> float:
    with StartTerminal(flags, environment) as chat:
        until = chat.prompt_s() + _TYPING_S
        longest = 0.0
        while chat.seconds < until:
            longest = max(longest, chat.echo_s("x"), chat.echo_s("\x7f"))
        return longest


def lines(seconds: Mapping[str, list[float]]) -> Iterator[str]:
    """The table."""
    yield f"{'':<10}{'median s':>10}{'fastest':>10}{'slowest':>10}"
    for name, values in seconds.items():
        yield f"{name:<10}{median(values):>10.3f}{min(values):>10.3f}{max(values):>10.3f}"


@click.command(help=__doc__)
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="Of the engine; default: as ever.")
@click.option("--starts", type=click.IntRange(min=1), default=7, show_default=True)
def main(with_json: bool, model: str, threads: int | None, starts: int) -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, {model}, {starts} starts each")
    path = str(find_model(model))
    with tempfile.TemporaryDirectory(prefix="radixchat-start-") as folder:
        each = arms(path, threads, Path(folder))
        try:
            each["waiting"]()  # and there is a conversation to be continued
            # In turn, so that a machine that becomes slower slows all of them.
            runs = [{name: start() for name, start in each.items()} for _ in range(starts)]
        except StartFailed as error:
            raise click.ClickException(str(error)) from error
    seconds = {name: [run[name] for run in runs] for name in each}
    for line in lines(seconds):
        click.echo(line)
    if with_json:
        rounded = {name: [round(value, 4) for value in values] for name, values in seconds.items()}
        head = facts("start", load, model=model, threads=threads, starts=starts)
        click.echo(json.dumps({**head, "seconds": rounded}))
    slow = [name for name in ("chat", "chat -c") if median(seconds[name]) >= GOAL_S]
    if slow:
        raise click.ClickException(f"the prompt took {GOAL_S} s or more: {', '.join(slow)}")


if __name__ == "__main__":
    main()
