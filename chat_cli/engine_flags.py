"""The flags that say which model computes, how, and where conversations are kept.

Shared by the commands that open an engine in this process. Owns their names, ranges and defaults
on the command line; what they mean is the engine's. Nothing slow is imported here.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import click

from radixchat.chat_cli.flag import count, option, options
from radixchat.chat_cli.paths import database_file, disk_cache_folder
from radixchat.chat_cli.shell_completion import files, installed_models
from radixchat.chat_cli.value_types import Text, byte_size

# Those of radixchat.radix.policies, named here because importing them would be slow.
EVICTION_POLICIES = ("lru", "slru", "tlru", "chat")
# Those of radixchat.engine.arithmetic, for the same reason.
WEIGHTS = ("auto", "fp32", "int8")
KV_FORMATS = ("auto", "int8")
DEVICES = ("auto", "cpu", "cuda")
# Those of radixchat.engine.tiers.write_policy, likewise.
WRITE_POLICIES = ("write_back", "write_through_selective")
DISK_CACHE_BYTES = 2 << 30

database_flag = option(
    "-d",
    "--db",
    "database",
    type=Text(),
    metavar="FILE",
    shell_complete=files,
    show_default="sessions.db in RADIXCHAT_DATA_DIR, or else in the platform's data folder",
    help="Where conversations are kept.",
)
"""Decorates a command with `--db`."""

engine_flags = options(
    option(
        "-m",
        "--model",
        metavar="NAME",
        shell_complete=installed_models,
        show_default="smollm2-135m",
        help="A model's name, a hub id, a .gguf file, or a folder.",
    ),
    count("--page-size", show_default="16", help="Tokens in a page of the cache."),
    count(
        "--pool-tokens",
        show_default="four contexts, at most a quarter of the memory",
        help="Tokens that the cache holds.",
    ),
    option("--no-cache", is_flag=True, help="Compute every prompt from its start."),
    option(
        "--eviction",
        type=click.Choice(EVICTION_POLICIES),
        default="chat",
        show_default=True,
        help="Which prompts a full cache forgets first.",
    ),
    option(
        "--host-cache",
        "host_cache_bytes",
        type=byte_size,
        metavar="SIZE",
        default=0,
        show_default="none",
        help="Memory for what a full cache forgets: 512M, 2G.",
    ),
    option(
        "--disk-cache",
        "disk_cache_bytes",
        type=byte_size,
        metavar="SIZE",
        default=DISK_CACHE_BYTES,
        show_default="2G",
        help="Disk space for it, for all models together, so that old conversations need not be "
        "computed again; 0: none.",
    ),
    option(
        "--disk-cache-key",
        "disk_cache_key",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        shell_complete=files,
        show_default="not encrypted",
        help="Encrypt it with the key in this file: 32 bytes, or these in base64.",
    ),
    option(
        "--write-policy",
        type=click.Choice(WRITE_POLICIES),
        default="write_through_selective",
        show_default=True,
        help="When it is written to the disk: as it leaves memory, or also when it was asked for "
        "twice.",
    ),
    count(
        "--threads",
        show_default="all cores",
        help="CPU threads; more than there are cores is slow.",
    ),
    option(
        "--device",
        type=click.Choice(DEVICES),
        default="auto",
        show_default=True,
        help="Where to compute; auto: on the GPU if there is one.",
    ),
    option(
        "--weights",
        type=click.Choice(WEIGHTS),
        default="auto",
        show_default=True,
        help="auto: a GGUF's bits as they are, 32 otherwise; int8: at most 8 bits.",
    ),
    option(
        "--kv",
        type=click.Choice(KV_FORMATS),
        default="auto",
        show_default=True,
        help="int8: a cache of nearly four times the tokens, slightly rounded.",
    ),
    option(
        "--exact/--no-exact",
        default=None,
        show_default="exact on the CPU",
        help="The same tokens give the same bits, cached or not, alone or beside others. On the CPU"
        " --no-exact is for comparison: torch's own arithmetic, several times slower.",
    ),
)
"""Decorates a command with all that the engine can be told."""

ENGINE_NAMES = (
    "model",
    "page_size",
    "pool_tokens",
    "eviction",
    "host_cache_bytes",
    "disk_cache_bytes",
    "disk_cache_key",
    "write_policy",
    "threads",
    "device",
    "weights",
    "kv",
    "exact",
)
"""The parameters of `engine_flags` that are settings under the same names; `no_cache` is not."""


def take_database(values: MutableMapping[str, Any]) -> Path:
    """The file of `--db`, taken out of `values`."""
    database = values.pop("database")
    return database_file() if database is None else Path(database).expanduser()


def take_engine(values: MutableMapping[str, Any]) -> dict[str, Any]:
    """The engine's settings by their names in LocalSettings, taken out of `values`."""
    taken = {name: values.pop(name) for name in ENGINE_NAMES}
    if taken["model"] is None:
        from radixchat.engine.model_store import DEFAULT_MODEL

        taken["model"] = DEFAULT_MODEL
    if taken["disk_cache_key"] is not None:
        taken["disk_cache_key"] = taken["disk_cache_key"].expanduser()
    return {
        **taken,
        "disk_cache_folder": disk_cache_folder(),
        "prefix_cache": not values.pop("no_cache"),
    }
