"""Rows on standard output: columns under their names on a terminal, tabs for a script.

Knows no command. Cells are expected without control characters and line breaks.
"""

from __future__ import annotations

from collections.abc import Sequence

import click


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str]], *, to_terminal: bool) -> None:
    """names: of the columns, as many as every row has cells. Of no rows nothing is shown."""
    if not to_terminal:
        for row in rows:
            click.echo("\t".join(row).rstrip("\t"))
    elif rows:
        from rich.cells import cell_len, set_cell_size  # `--help` does without

        shown = [names, *rows]
        widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
        for row in shown:
            cells = [set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)]
            click.echo("  ".join(cells).rstrip())
