"""What a server says of itself over HTTP. Wire values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from radixchat.server.wire_session import CacheTreeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelObject:
    """max_model_len: tokens of a conversation, under vLLM's name."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "radixchat"
    max_model_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """The one model."""

    object: Literal["list"] = "list"
    data: tuple[ModelObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """status: "ok", or why not."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """protocol: the number of the socket's extensions."""

    version: str
    protocol: int
    model: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """The engine's counters by name, and the principal's part of the tree."""

    stats: Mapping[str, Any]
    tree: CacheTreeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """tokens: no longer cached."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """The body of POST /admin/drain."""

    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """running: responses that the server still waits for."""

    draining: bool
    running: int
