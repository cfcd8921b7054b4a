"""The command line of `bench serve` as values: which servers, which load. Starts nothing."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

import click

from radixchat.bench.serve_http import Address
from radixchat.bench.serve_load import ServeLoad
from radixchat.bench.serve_measure import Target
from radixchat.bench.serve_result import Goodput
from radixchat.engine.model_store import DEFAULT_MODEL

# Fits a context of 512 tokens.
QUICK = ServeLoad(conversations=2, turns=2, system=40, message=8, answer=8)
_SEEDS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """As they were given; the names are the options'. None: the default, which depends."""

    with_json: bool
    url: str | None
    key: str | None
    model: str | None
    tokenizer: str | None
    serve_flags: str
    peer_url: str | None
    peer_key: str | None
    peer_model: str | None
    transports: tuple[str, ...]
    conversations: int | None
    turns: int | None
    system_tokens: int | None
    message_tokens: int | None
    answer_tokens: int | None
    edit: bool
    concurrencies: tuple[int, ...]
    cold: bool
    good_ttft: float | None
    good_gap: float | None
    timeout: float
    seed: int | None
    requests: TextIO | None
    quick: bool

    @property
    def target(self) -> Target:
        """The server that is measured; without a URL our own."""
        if self.url is not None:
            return Target(self.url, self.key, self.model, self.tokenizer)
        flags = tuple(shlex.split(self.serve_flags))
        return Target(None, None, self.model or DEFAULT_MODEL, self.tokenizer, flags)

    @property
    def peer(self) -> Target | None:
        """The server beside it."""
        if self.peer_url is None:
            return None
        return Target(self.peer_url, self.peer_key, self.peer_model, self.tokenizer)

    @property
    def load(self) -> ServeLoad:
        """What is said."""
        base = QUICK if self.quick else ServeLoad()
        return ServeLoad(
            self.conversations or base.conversations,
            self.turns or base.turns,
            self.system_tokens or base.system,
            self.message_tokens or base.message,
            self.answer_tokens or base.answer,
            self.edit,
        )

    @property
    def goodput(self) -> Goodput | None:
        """None where nobody says what is good enough."""
        if self.good_ttft is None and self.good_gap is None:
            return None
        return Goodput(self.good_ttft, self.good_gap)

    def drawn_seed(self) -> int:
        """The one that was given, else one that no run before had."""
        return random.SystemRandom().randrange(_SEEDS) if self.seed is None else self.seed


def read_url(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A callback; raises click.BadParameter where it is none."""
    if value is not None:
        try:
            Address.of(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


def read_counts(
    _context: click.Context, _parameter: click.Parameter, value: str
) -> tuple[int, ...]:
    """A callback: whole numbers separated by commas, none twice; raises click.BadParameter."""
    try:
        counts = tuple(dict.fromkeys(int(each) for each in value.split(",")))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise click.BadParameter(f"{value!r} is not like 8 or 1,8")
    return counts


Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def length(name: str, default: int, text: str) -> Decorator:
    """An option for a number of 1 or more, whose default --quick may change."""
    help_text = f"{text}  [default: {default}]".strip()
    return click.option(f"--{name}", type=click.IntRange(min=1), help=help_text)
