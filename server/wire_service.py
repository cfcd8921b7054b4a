"""What a server says of itself over HTTP. Wire values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from radixchat.server.wire_session import CacheTreeObject

Status = Literal["loading", "ready", "draining", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelObject:
    """context_length: tokens that a conversation can have."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["radixchat"] = "radixchat"
    context_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """The one model."""

    object: Literal["list"] = "list"
    data: tuple[ModelObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the process serves; 503 of what is no good to the one who asks."""

    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """protocol: the number of the socket's extensions."""

    version: str
    protocol: int


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
class Draining:
    """running: responses that the server still waits for."""

    draining: bool
    running: int
