"""`radixchat serve`: its flags, resolved into what is served and how it is reached.

Knows click and nothing that is slow to import; what it does is in `serve_run.py`.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import click

from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.engine_flags import (
    database_flag,
    engine_flags,
    take_database,
    take_engine,
)
from radixchat.chat_cli.flag import Number, count, option, options
from radixchat.server.limits import Limits
from radixchat.server.protocol import RadixChatError
from radixchat.server.serve_settings import (
    AUTH_MODES,
    DEFAULT_HOST,
    DEFAULT_PORT,
    LOG_FORMATS,
    ServeSettings,
)

_HELP = """Serve a model and its conversations over WebSocket and HTTP, on one port.

The OpenAI SDK works unchanged with base_url http://HOST:PORT/v1: responses (also over its
WebSocket), chat completions, conversations. A browser finds a chat at http://HOST:PORT/.

Without any key, whoever reaches this machine's own address comes in; with the first one that
`radixchat keys add` makes, a key is needed. Another address needs a key from the beginning.

SIGTERM or Ctrl-C: /readyz says no, nothing new begins, running answers finish or are stored, and
the process ends with 0. A second one ends it at once.

Every flag can be given by a variable RADIXCHAT_<FLAG> or in config.toml, as for `radixchat chat`.
"""

_DEFAULTS = ServeSettings()
_LIMITS = Limits()

_ADDRESS = options(
    option(
        "--host",
        metavar="HOST",
        default=DEFAULT_HOST,
        show_default=True,
        help="Where to listen; 0.0.0.0 is every address.",
    ),
    option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="N",
        default=DEFAULT_PORT,
        show_default=True,
        help="0: any that is free; it is printed.",
    ),
    database_flag,
)
_ACCESS = options(
    option("--insecure", is_flag=True, help="Listen beyond this machine even without a key."),
    option(
        "--allow-host",
        "allow_hosts",
        metavar="NAME",
        multiple=True,
        help="Another name of this server, in the Host of requests; * is any. Repeatable.",
    ),
    option(
        "--allow-origin",
        "allow_origins",
        metavar="ORIGIN",
        multiple=True,
        help="Web pages of another origin that may use it (https://example.org); * is any. "
        "Repeatable.",
    ),
    option(
        "--auth-mode",
        type=click.Choice(AUTH_MODES),
        default=_DEFAULTS.auth_mode,
        show_default=True,
        help="message: a WebSocket may bring its key in its first message, too.",
    ),
    option(
        "--tls-cert",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Certificate (PEM), with its chain.",
    ),
    option(
        "--tls-key",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Its private key.",
    ),
)
_BOUNDS = options(
    count(
        "--max-message-bytes",
        default=_LIMITS.max_message_bytes,
        show_default=True,
        help="Longest WebSocket message and HTTP body.",
    ),
    count(
        "--max-connections",
        default=_LIMITS.max_connections,
        show_default=True,
        help="WebSockets of one key.",
    ),
    count(
        "--max-sockets",
        default=_LIMITS.max_sockets,
        show_default=True,
        help="WebSockets of all together.",
    ),
    count(
        "--max-open",
        show_default="twice --max-sockets",
        help="Connections of any kind; one more is answered 503.",
    ),
    count(
        "--max-lanes", default=_LIMITS.max_lanes, show_default=True, help="Lanes of one WebSocket."
    ),
    count(
        "--max-queued",
        default=_LIMITS.max_queued,
        show_default=True,
        help="Turns that wait in one lane.",
    ),
    count(
        "--requests-per-minute",
        show_default="no limit",
        help="Answers that one key may begin.",
    ),
    count(
        "--tokens-per-day",
        show_default="no limit",
        help="Tokens generated for one key since midnight UTC. A restart forgets those of chat "
        "completions and completions, which are not stored.",
    ),
)
_LIFE = options(
    option(
        "--drain-timeout",
        "drain_timeout_s",
        type=Number(0),
        metavar="SECONDS",
        default=_DEFAULTS.drain_timeout_s,
        show_default=True,
        help="How long answers may go on when the server is told to leave.",
    ),
    option(
        "--disconnect-grace",
        "disconnect_grace_s",
        type=Number(-1),
        metavar="SECONDS",
        default=_DEFAULTS.disconnect_grace_s,
        show_default=True,
        help="How long an answer goes on that nobody reads; 0: not at all, -1: to its end.",
    ),
    option(
        "--strict", is_flag=True, help="Refuse fields of requests that are not known, not ignore."
    ),
    option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        default=_DEFAULTS.log_format,
        show_default=True,
        help="json: one object a line.",
    ),
)
_OF_LIMITS = (
    "max_message_bytes",
    "max_connections",
    "max_sockets",
    "max_open",
    "max_lanes",
    "max_queued",
    "requests_per_minute",
    "tokens_per_day",
)


@click.command(
    "serve",
    cls=ConfiguredCommand,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@_ADDRESS
@_ACCESS
@engine_flags
@_BOUNDS
@_LIFE
@click.option("--check", is_flag=True, help="Look whether all of this would work, say it, and end.")
def serve(*, check: bool, **values: Any) -> None:
    """Resolve the settings and serve; exits with the server's code."""
    database, engine = take_database(values), take_engine(values)
    settings = take_settings(values)
    assert not values, f"flags without a meaning: {sorted(values)}"

    from radixchat.chat_cli.serve_run import run_check, run_server

    run = run_check if check else run_server
    raise SystemExit(run(settings, {**engine, "database": database}))


def take_settings(values: MutableMapping[str, Any]) -> ServeSettings:
    """How the server is reached, taken out of `values`.

    Raises click.UsageError: values that contradict each other.
    """
    bounds = {name: values.pop(name) for name in _OF_LIMITS}
    try:
        settings = ServeSettings(
            limits=Limits(**bounds),
            allow_hosts=tuple(values.pop("allow_hosts")),
            allow_origins=tuple(values.pop("allow_origins")),
            **{
                name: values.pop(name)
                for name in (
                    "host",
                    "port",
                    "insecure",
                    "auth_mode",
                    "tls_cert",
                    "tls_key",
                    "drain_timeout_s",
                    "disconnect_grace_s",
                    "strict",
                    "log_format",
                )
            },
        )
    except RadixChatError as error:
        raise click.UsageError(str(error)) from error
    return settings
