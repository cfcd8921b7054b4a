"""Runs `radixchat serve`: what a user reads at the start, the check, and the process's streams.

Standard output has one line, the server's address, once it serves; everything else goes to
standard error, where the log goes too. Knows no flag; the server itself is `server/serve.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.collection import no_collection
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.guard import guarded
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.model_download import find_or_fetch
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.streams import Streams
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.serving import Serving


def run_server(settings: ServeSettings, local: Mapping[str, Any]) -> int:
    """Serve until told to leave; the exit code. local: the fields of LocalSettings."""
    streams = Streams.of_this_process(json=False, ids=False)

    def work() -> int:
        with Interrupts(interrupt_leaves=True):
            # Not around the engine: that has a collector of its own, for as long as it runs.
            with no_collection():
                from radixchat.server.serve import open_sockets
            # What can be wrong without the model is told before that is fetched.
            sockets = open_sockets(settings, local["database"])
            return _serve(local, settings, sockets, streams)

    return guarded(work, streams.notes.error)


def _serve(
    local: Mapping[str, Any],
    settings: ServeSettings,
    sockets: Sequence[socket.socket],
    streams: Streams,
) -> int:
    from radixchat.engine.model_store import ModelStore
    from radixchat.server.local import LocalSettings, prepare
    from radixchat.server.log_format import set_up_logging
    from radixchat.server.serve import serve

    asked = LocalSettings(**local)
    set_up_logging(settings.log_format, sys.stderr)
    find_or_fetch(ModelStore.default(), asked.model, streams.errors, streams.notes)
    with contextlib.ExitStack() as loading:
        loading.enter_context(streams.notes.during(f"loading {asked.model} …"))
        prepare(asked, streams.notes.note)

        def announce(serving: Serving) -> None:
            loading.close()
            if settings.log_format == "text":
                _announce(serving, streams.notes)
            click.echo(serving.url)
            sys.stdout.flush()

        return asyncio.run(serve(asked, settings, sockets, announce))


def run_check(settings: ServeSettings, local: Mapping[str, Any]) -> int:
    """Say of each part whether it would work; the exit code of the first that would not."""
    from radixchat.server.local import LocalSettings
    from radixchat.server.serve_check import findings

    code = exit_codes.OK
    with Interrupts(interrupt_leaves=True):
        for finding in findings(LocalSettings(**local), settings):
            mark = "ok" if finding.error is None else "no"
            click.echo(f"{mark}  {finding.part:<8}  {neutral_line(finding.said)}")
            if finding.error is not None and code == exit_codes.OK:
                code = exit_codes.for_error(finding.error)
    return code


def _announce(serving: Serving, notes: Notes) -> None:
    where = "in memory" if serving.database is None else str(serving.database)
    notes.table(
        {
            "model": f"{serving.model_name}, {serving.n_ctx:,} tokens of context",
            "engine": serving.plan,
            "stored": where,
            "keys": "a key is needed" if serving.needs_key else "none needed",
            "page": f"{serving.url}/",
            "API": f"{serving.url}/v1",
        }
    )
    for notice in serving.notices:
        notes.note(notice)
