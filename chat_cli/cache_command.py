"""`radixchat cache`: what is kept on the disk of what was computed: stat, verify, clear.

Standard output has a line per kind of pages of tab-separated name, pages, bytes and when it was
used last; on a terminal in columns. Loads no model: the folder can be used meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.checkup import shown_bytes, shown_path
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.guard import run_guarded
from radixchat.chat_cli.miss_note import age
from radixchat.chat_cli.paths import disk_cache_folder
from radixchat.chat_cli.table import show_rows

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams
    from radixchat.engine.tiers.disk_administration import PageKind

_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_HEADINGS = ("KIND", "COMPUTED AS", "PAGES", "SIZE", "LAST USED")


@click.group(help="What is kept on the disk so that it need not be computed again.")
def cache() -> None:
    """Dispatch to a subcommand."""


@cache.command()
@_json
def stat(as_json: bool) -> None:
    """Say what there is, a line for each kind: model, arithmetic, tokenizer, database.

    What one model has computed is of no use to another; all share the room (--disk-cache).
    """
    from radixchat.engine.tiers.disk_administration import disk_folders

    def work(streams: Streams) -> int:
        found = disk_folders(disk_cache_folder())
        if as_json:
            kinds = [_object(kind) for kind in found.kinds]
            _show(folder=str(found.folder), bytes=found.bytes, kinds=kinds, problem=found.problem)
        elif streams.answers.is_terminal:
            show_rows(_HEADINGS, [_row(kind) for kind in found.kinds], to_terminal=True)
            streams.notes.note(f"{shown_bytes(found.bytes)} in {shown_path(found.folder)}")
        else:
            rows = [(k.name, str(k.pages), str(k.bytes), f"{k.used:.0f}") for k in found.kinds]
            show_rows((), rows, to_terminal=False)
        if found.problem is not None:
            streams.notes.error(found.problem)
            return exit_codes.ERROR
        return exit_codes.OK

    run_guarded(work, json=as_json)


@cache.command()
@_json
def verify(as_json: bool) -> None:
    """Read all of it, and remove what is damaged: it would be computed again. Exits with 1 then."""
    from radixchat.engine.tiers.disk_administration import verify as verify_folder

    def work(streams: Streams) -> int:
        with streams.notes.during("reading …"):
            found = verify_folder(disk_cache_folder())
        damaged = sum(found.damaged.values())
        if as_json:
            _show(pages=found.pages, damaged=dict(found.damaged))
        else:
            click.echo(f"{_counted(found.pages)} as written, {damaged:,} damaged and removed")
            for reason, count in found.damaged.items():
                click.echo(f"{reason}: {count:,}")
        return exit_codes.ERROR if damaged else exit_codes.OK

    run_guarded(work, json=as_json)


@cache.command()
@click.argument("kind", required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask, on a terminal.")
@_json
def clear(kind: str | None, yes: bool, as_json: bool) -> None:
    """Remove all of it, or of KIND (its name, or how that begins). Conversations stay.

    Who uses it meanwhile goes on without. On a terminal you are asked before.
    """
    from radixchat.engine.tiers.disk_administration import clear as clear_folder

    def work(streams: Streams) -> int:
        folder = disk_cache_folder()
        name = None if kind is None else _named(folder, kind)
        asks = not yes and sys.stdin is not None and sys.stdin.isatty()
        what = f"all pages in {shown_path(folder)}" if name is None else f"the pages of {name}"
        if asks and not click.confirm(f"remove {what}?", err=True):
            return exit_codes.OK
        gone = clear_folder(folder, name)
        if as_json:
            _show(pages=gone.pages, bytes=gone.bytes)
        else:
            click.echo(f"removed {_counted(gone.pages)}, {shown_bytes(gone.bytes)}")
        return exit_codes.OK

    run_guarded(work, json=as_json)


def _named(folder: Path, beginning: str) -> str:
    """The one kind whose name begins so. Raises click.UsageError."""
    from radixchat.engine.tiers.disk_administration import disk_folders

    names = [kind.name for kind in disk_folders(folder).kinds if kind.name.startswith(beginning)]
    if len(names) != 1:
        found = "none" if not names else f"{len(names)} of them"
        raise click.UsageError(
            f"{neutral_line(beginning)!r} begins the name of {found}; `radixchat cache stat` "
            "lists them"
        )
    return names[0]


def _row(kind: PageKind) -> tuple[str, ...]:
    described = neutral_line(kind.fields.get("arithmetic", "unknown"))
    seconds = max(0.0, time.time() - kind.used)
    return (kind.name[:8], described, f"{kind.pages:,}", shown_bytes(kind.bytes), age(seconds))


def _object(kind: PageKind) -> Mapping[str, Any]:
    return {
        "kind": kind.name,
        "fields": dict(kind.fields),
        "pages": kind.pages,
        "bytes": kind.bytes,
        "used_at": kind.used,
    }


def _show(**values: Any) -> None:
    click.echo(json.dumps(values, ensure_ascii=False))


def _counted(pages: int) -> str:
    return f"{pages:,} page{'' if pages == 1 else 's'}"
