"""What one run of `radixchat chat` was asked for, resolved: a frozen value.

Knows no command line: `chat_command.py` fills it from flags, variables and the configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from radixchat.server.protocol import ResponseOptions


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of one chat; None means the default of whoever uses the value.

    continue_last and session exclude each other. database: the file of the conversations.
    """

    model: str
    database: Path
    system: str | None = None
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    # A small model may repeat itself until its context is full, minutes later.
    max_tokens: int = 1024
    page_size: int | None = None
    pool_tokens: int | None = None
    prefix_cache: bool = True
    eviction: str = "chat"
    threads: int | None = None
    json: bool = False
    ids: bool = False
    continue_last: bool = False
    session: str | None = None

    @property
    def response_options(self) -> ResponseOptions:
        """What every answer of this run is asked for."""
        return ResponseOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
            max_output_tokens=self.max_tokens,
        )
