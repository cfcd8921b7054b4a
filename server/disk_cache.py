"""The disk tier of a service: what its folder is named for, and the key it is encrypted with.

Owns which parts make K/V the same K/V. Knows no format of a file; the store is `DiskStore`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.computing_machine import computing_machine
from radixchat.engine.config import EnginePlan
from radixchat.engine.errors import ConfigError
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.tiers.disk_forgetting import namespace_key_id
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.tiers.open_tiers import MakeStore

KEY_BYTES = 32
_MAX_KEY_FILE = 4096


@dataclass(frozen=True, slots=True)
class DiskCache:
    """Where pages go from memory. key: encrypts them. secret: what namespaces are derived with."""

    folder: Path
    quota_bytes: int
    secret: bytes
    key: bytes | None = None

    def store_of(self, checkpoint: str, config: ModelConfig, prompts: str) -> MakeStore:
        """Makes the store of one model. checkpoint: its fingerprint; prompts: its render hash."""

        def make(plan: EnginePlan, page_bytes: int) -> DiskStore:
            parts = fingerprint(checkpoint, config, prompts, plan, self.secret)
            return DiskStore(self.folder, parts, page_bytes, self.quota_bytes, key=self.key)

        return make


def fingerprint(
    checkpoint: str, config: ModelConfig, prompts: str, plan: EnginePlan, secret: bytes
) -> Mapping[str, str]:
    """All that has to be equal for pages to be of use, by name; none of it is secret.

    model: the weights. shape: dimensions and rotary positions. prompts: tokenizer and template.
    arithmetic, machine: what decides the bits of K and V. page_size: tokens. namespaces: names the
    secret that a principal's root is derived with; another database has another one.
    """
    shape = hashlib.blake2b(_description(config).encode(), digest_size=16).hexdigest()
    return {
        "model": checkpoint,
        "shape": shape,
        "prompts": prompts,
        "arithmetic": plan.arithmetic,
        "machine": computing_machine(plan.device),
        "kv": plan.kv,
        "layout": plan.device,
        "page_size": str(plan.page_size),
        "namespaces": namespace_key_id(secret),
    }


def read_key(file: Path) -> bytes:
    """The 32 bytes of a file, which has them as they are or in base64. Raises ConfigError."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_KEY_FILE + 1)
    except OSError as error:
        raise ConfigError(f"disk_cache_key: cannot read {file}: {error.strerror}") from error
    if len(data) == KEY_BYTES:
        return data
    try:
        key = base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"disk_cache_key: {file} has no key; it must be {KEY_BYTES} bytes, or these in base64 "
            f"(openssl rand -base64 {KEY_BYTES})"
        )
    return key


def _description(config: ModelConfig) -> str:
    """Equal for equal values; a set's own order is not."""
    names = [name for name in config.__slots__ if name != "unrotated_layers"]
    values = [(name, getattr(config, name)) for name in names]
    return repr([*values, sorted(config.unrotated_layers)])
