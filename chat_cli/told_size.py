"""The variables that tell a terminal's size, as far as they tell one. Knows no terminal."""

from __future__ import annotations

from collections.abc import MutableMapping

VARIABLES = ("COLUMNS", "LINES")
_MOST = 10_000
"""Cells; far more than any screen has, and few enough that a line of so many can be drawn."""


def forget_absurd_size(environment: MutableMapping[str, str]) -> None:
    """Take out what is no size: rich writes nothing at all, no error either, into 0 columns."""
    for name in VARIABLES:
        value = environment.get(name, "1")
        is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(_MOST))
        if not (is_number and 1 <= int(value) <= _MOST):
            del environment[name]
