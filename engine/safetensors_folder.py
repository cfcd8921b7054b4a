"""A Hugging Face folder: config.json, safetensors files, and where each weight lies.

Owns the table of names over one file or many shards. Knows no torch: the weights themselves are
read by `engine/weights.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.fingerprint import file_fingerprint
from radixchat.engine.hf_config import read_hf_config, read_json
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.weight_shapes import check_weights

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SUPPORTED_DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """Where one weight lies: the shard, and its name in it."""

    shard: Path
    stored_name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SafetensorsFolder:
    """A supported checkpoint: its shape, and each weight's place by canonical name."""

    path: Path
    config: ModelConfig
    weights: Mapping[str, StoredWeight]
    spare_head: StoredWeight | None  # lm_head of a tied checkpoint, written a second time

    def shards(self) -> list[Path]:
        """The files that hold the weights, in order of name."""
        return sorted({weight.shard for weight in self.weights.values()})

    def fingerprint(self) -> str:
        """The same for the same weights and config.json, wherever the folder lies."""
        return folder_fingerprint(self.path, self.shards())


def open_safetensors(path: Path) -> SafetensorsFolder:
    """Read the config and every shard's header, and check that no weight is missing.

    Raises ModelLoadError naming what is missing, damaged or unsupported.
    """
    config = read_hf_config(path)
    stored: dict[str, StoredWeight] = {}
    for shard in _shards(path):
        for weight in _read_header(shard):
            stored[_canonical(weight.stored_name)] = weight
    spare_head = stored.pop("lm_head.weight", None) if config.tied_embeddings else None
    # Old Llama checkpoints carry the rotary frequencies, which follow from the config.
    weights = {
        name: weight for name, weight in stored.items() if not name.endswith(".rotary_emb.inv_freq")
    }
    check_weights(config, {name: weight.shape for name, weight in weights.items()}, path)
    return SafetensorsFolder(path, config, weights, spare_head)


def folder_fingerprint(path: Path, shards: Iterable[Path]) -> str:
    """The same for the same config.json and the same weights in these files, wherever they lie."""
    digest = hashlib.sha256((path / "config.json").read_bytes())
    for shard in shards:
        header_bytes, spans = _spans(shard)
        digest.update(file_fingerprint(shard, header_bytes, spans))
    return digest.hexdigest()


def find_shards(path: Path) -> list[Path]:
    """The files with a folder's weights, of whatever names and types, their headers intact.

    Raises ModelLoadError naming what is missing or damaged.
    """
    shards = _shards(path)
    for shard in shards:
        try:
            with safe_open(shard, framework="numpy"):
                continue
        except (OSError, SafetensorError) as error:
            raise ModelLoadError(f"{shard} is damaged: {error}; fetch it again") from error
    return shards


def _shards(path: Path) -> list[Path]:
    index = path / INDEX
    if not index.exists():
        if not (path / SINGLE).exists():
            raise ModelLoadError(
                f"{path} has neither {SINGLE} nor {INDEX}; weights in another format than "
                "safetensors or GGUF are not supported"
            )
        return [path / SINGLE]
    table = read_json(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelLoadError(f"{index} is damaged: it has no weight_map; fetch it again")
    shards = []
    for name in sorted({str(value) for value in table.values()}):
        if Path(name).name != name:
            raise ModelLoadError(f"{index} names a shard outside its folder: {name!r}")
        if not (path / name).exists():
            raise ModelLoadError(f"{path} lacks the shard {name} that {INDEX} names")
        shards.append(path / name)
    return shards


def _read_header(shard: Path) -> list[StoredWeight]:
    weights = []
    try:
        with safe_open(shard, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 -- a safetensors handle is no mapping
                entry = file.get_slice(name)
                if entry.get_dtype() not in SUPPORTED_DTYPES:
                    raise ModelLoadError(
                        f"{shard}: {name} has the type {entry.get_dtype()}; supported: "
                        f"{', '.join(SUPPORTED_DTYPES)}"
                    )
                weights.append(StoredWeight(shard, name, tuple(entry.get_shape())))
    except (OSError, SafetensorError) as error:
        raise ModelLoadError(f"{shard} is damaged: {error}; fetch it again") from error
    return weights


def _spans(shard: Path) -> tuple[int, list[tuple[int, int]]]:
    """The length of a shard's header, and where its tensors lie (the format is eight bytes of

    length, that many of JSON, then the tensors with offsets relative to the header's end).
    """
    with shard.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        table = json.loads(file.read(length))
    start = 8 + length
    offsets = [entry["data_offsets"] for name, entry in table.items() if name != "__metadata__"]
    return start, [(start + first, start + last) for first, last in offsets]


def _canonical(name: str) -> str:
    return name.removeprefix("model.")
