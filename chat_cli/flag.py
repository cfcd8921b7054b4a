"""How a flag is declared: its variable, and the numbers that click's own types let through.

Knows no flag by itself, and not what a value is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

PREFIX = "RADIXCHAT_"
Function = TypeVar("Function", bound=Callable[..., Any])


class Number(click.FloatRange):
    """A FloatRange that refuses NaN, which no comparison does, and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number. Fails: no number, out of range, NaN, infinite."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def variable(flag: str) -> str:
    """The environment variable of a flag or a setting: `RADIXCHAT_TOP_P` of `--top-p`.

    Of `--exact/--no-exact` it is RADIXCHAT_EXACT.
    """
    return PREFIX + flag.partition("/")[0].lstrip("-").replace("-", "_").upper()


def option(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    """An option with the variable RADIXCHAT_<FLAG>."""
    flag = max((name for name in names if name.startswith("--")), key=len)
    return click.option(*names, envvar=variable(flag), **attributes)


def count(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    """An option that is a number from 1."""
    return option(*names, type=click.IntRange(min=1), metavar="N", **attributes)


def options(*declared: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one decorator, in the order of the help."""

    def decorate(function: Function) -> Function:
        for one in reversed(declared):
            function = one(function)
        return function

    return decorate
