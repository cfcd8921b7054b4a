"""What one run of `radixchat chat` was asked for, resolved: a frozen value.

Knows no command line: `chat_command.py` fills it from flags, variables and the configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from radixchat.server.protocol import ResponseOptions

# A small model wanders off when it is hot, and may repeat itself until its context is full,
# minutes later.
DEFAULT_ANSWER = ResponseOptions(temperature=0.2, top_p=0.9, max_output_tokens=1024)


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of one chat; None means the default of whoever uses the value.

    answer: what every answer of this run is asked for. continue_last and session exclude each
    other. database: the file of the conversations. url: the server that answers, with its key;
    None: an engine in this process, which the settings from page_size to exact are for.

    attach: files that are put before the first message. raw: the model's bytes reach standard
    output untouched. extract: of a single answer its first code block only. quiet: neither notes
    nor status lines, errors only. color: False is what NO_COLOR asks for. history: the input's is
    read and written. log: False: what is said is forgotten when the chat ends.
    """

    model: str
    database: Path
    system: str | None = None
    answer: ResponseOptions = DEFAULT_ANSWER
    page_size: int | None = None
    pool_tokens: int | None = None
    prefix_cache: bool = True
    eviction: str = "chat"
    host_cache_bytes: int = 0
    disk_cache_bytes: int = 0
    disk_cache_folder: Path | None = None
    disk_cache_key: Path | None = None
    write_policy: str = "write_through_selective"
    tier_gate: str = "measured"
    threads: int | None = None
    device: str = "auto"
    weights: str = "auto"
    kv: str = "auto"
    exact: bool | None = None
    json: bool = False
    ids: bool = False
    continue_last: bool = False
    session: str | None = None
    url: str | None = None
    key: str | None = field(default=None, repr=False)
    attach: tuple[str, ...] = ()
    raw: bool = False
    extract: bool = False
    quiet: bool = False
    color: bool = True
    history: bool = True
    log: bool = True
