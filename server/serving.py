"""`Serving`: what a user wants to know once a server serves. A frozen value, standard library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that serves.

    url: its address in a browser. plan: how the engine computes, in a line. needs_key: whether
    requests have to have one. database: None: in memory. notices: sentences to tell once.
    """

    url: str
    model_name: str
    plan: str
    n_ctx: int
    database: Path | None
    needs_key: bool
    notices: tuple[str, ...]
