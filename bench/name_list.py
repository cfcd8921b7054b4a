"""`name_list`: reads the value of an option that takes several names. Knows no name."""

from __future__ import annotations

from collections.abc import Callable

import click

_Callback = Callable[[click.Context, click.Parameter, str | None], tuple[str, ...] | None]


def name_list(allowed: tuple[str, ...]) -> _Callback:
    """Names separated by commas, each one of `allowed`; in the order given, none twice.

    The callback returns None where the option is absent, and raises click.BadParameter.
    """

    def read(
        _context: click.Context, _parameter: click.Parameter, value: str | None
    ) -> tuple[str, ...] | None:
        if value is None:
            return None
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        for name in names:
            if name not in allowed:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(allowed)}")
        return names

    return read
