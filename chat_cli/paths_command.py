"""`radixchat paths`: where its files are, whether they exist or not. Makes none of them.

Standard output has a line per place of tab-separated name and path; on a terminal in columns; of
one that is named its path alone.
"""

from __future__ import annotations

import json
import sys

import click

from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.engine_flags import database_flag, take_database
from radixchat.chat_cli.paths import PLACES, places
from radixchat.chat_cli.table import show_rows

_HELP = """Print where the files are, or where NAME is.

RADIXCHAT_CONFIG_DIR, RADIXCHAT_DATA_DIR, RADIXCHAT_STATE_DIR and RADIXCHAT_CACHE_DIR move the
configuration, the data, the state (what was typed) and the cache.
"""


@click.command(
    "paths",
    cls=ConfiguredCommand,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("name", required=False, type=click.Choice(PLACES))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@database_flag
def paths(name: str | None, as_json: bool, database: str | None) -> None:
    """Print them."""
    found = {**places(), "database": take_database({"database": database})}
    texts = {key: str(path) for key, path in found.items() if name in (None, key)}
    if as_json:
        click.echo(json.dumps(texts, ensure_ascii=False))
    elif name is not None:
        click.echo(neutral_line(texts[name]) if sys.stdout.isatty() else texts[name])
    elif sys.stdout.isatty():
        rows = [(key, neutral_line(text)) for key, text in texts.items()]
        show_rows(("NAME", "PATH"), rows, to_terminal=True)
    else:
        show_rows((), list(texts.items()), to_terminal=False)
