"""`radixchat bench`: the benchmarks, which are imported when one of them is asked for.

Knows none of them; `bench/main.py` does.
"""

from __future__ import annotations

import click


class _Benchmarks(click.Group):
    """The benchmarks' own group, as a subcommand that costs nothing until it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _group().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _group().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _group().format_commands(ctx, formatter)


def _group() -> click.Group:
    from radixchat.bench.main import bench as group

    return group


bench = _Benchmarks("bench", help="Benchmarks, also of your own traffic; no GPU needed.")
