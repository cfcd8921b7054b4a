"""Checkpoints: a GGUF file or a Hugging Face folder → ModelConfig and weights, ready to compute.

Owns the canonical form that the decoder relies on: names without "model.", matrices
[out_features, in_features], rotary positions by halves; plain tensors of one dtype, or matrices
packed for the CPU beside fp32 vectors. Knows no request and no cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from radixchat.engine.arithmetic import DTYPE_NAMES, check_choices
from radixchat.engine.block_formats import (
    CHUNK_WEIGHTS,
    FLOAT_KINDS,
    SUPPORTED_KINDS,
    block_sizes,
    dequantize,
)
from radixchat.engine.errors import ConfigError, ModelLoadError
from radixchat.engine.gguf import GGUFFile, GGUFTensor, read_gguf
from radixchat.engine.gguf_model import ROPE_FREQS, interpret_gguf
from radixchat.engine.hf_config import is_of_transformers
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.safetensors_folder import (
    SafetensorsFolder,
    find_shards,
    folder_fingerprint,
    open_safetensors,
)
from radixchat.engine.transformers_config import read_transformers_config
from radixchat.engine.transformers_model import load_transformers
from radixchat.kernels import ops


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model in memory.

    tensors: by canonical name (`engine/weight_shapes.py`). Plain ones are contiguous and all of
    one dtype.
    fields: a GGUF's metadata, which holds its tokenizer and template; None for a folder.
    fingerprint: equal for equal weights wherever they lie; an id, not a proof of integrity.
    weights: the format of the matrices, as in `EnginePlan.weights`.
    module: of a family that only transformers knows, its model with all weights; no tensors then.
    """

    config: ModelConfig
    tensors: Mapping[str, ops.Matrix]
    fields: Mapping[str, Any] | None
    fingerprint: str
    weights: str = "fp32"
    module: torch.nn.Module | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of activations, and of K and V that are not int8."""
        if self.module is not None:
            return next(self.module.parameters()).dtype
        norm = self.tensors["norm.weight"]
        assert isinstance(norm, Tensor)
        return norm.dtype

    def dense(self) -> dict[str, Tensor]:
        """All weights as plain tensors; a packed matrix as the fp32 that its products use."""
        return {
            name: weight if isinstance(weight, Tensor) else ops.unpack(weight)
            for name, weight in self.tensors.items()
        }


def load_checkpoint(
    path: Path, dtype: torch.dtype = torch.float32, weights: str = "fp32"
) -> Checkpoint:
    """Load a .gguf file, or a folder with config.json and safetensors.

    weights: what becomes of the matrices. "fp32": plain tensors of `dtype`, as are the vectors in
    any case. "auto": packed for the CPU's products, to the bit what the file has. "int8": the
    same, but of floating point matrices 8 bits a weight, with a scale for 32 of them. A folder of a
    family that only transformers knows has plain tensors in any case, and no "int8".
    Raises ConfigError: no such choice; ModelLoadError: missing, cut off, damaged or unsupported.
    """
    check_choices(weights=weights)
    if weights != "fp32" and dtype != torch.float32:
        raise ConfigError(f"weights is {weights!r}, which goes with fp32; dtype is {dtype}")
    if not path.exists():
        raise ModelLoadError(f"there is no model at {path}")
    load = _load_folder if path.is_dir() else _load_gguf
    try:
        return load(path, dtype, weights)
    except (OSError, SafetensorError) as error:
        raise ModelLoadError(f"cannot read {path}: {error}") from error


def inspect_checkpoint(path: Path) -> ModelConfig:
    """What load_checkpoint would load, from the headers alone; raises ModelLoadError as it does."""
    if path.is_dir():
        if is_of_transformers(path):
            find_shards(path)
            return read_transformers_config(path)
        return open_safetensors(path).config
    header = read_gguf(path)
    _check_kinds(header)
    return interpret_gguf(header, None).config


def _load_folder(path: Path, dtype: torch.dtype, weights: str) -> Checkpoint:
    if is_of_transformers(path):
        return _load_module(path, dtype, weights)
    folder = open_safetensors(path)
    _check_spare_head(folder)
    tensors: dict[str, ops.Matrix] = {}
    for shard in folder.shards():
        with safe_open(shard, framework="pt") as file:
            for name, weight in folder.weights.items():
                if weight.shard == shard:
                    # A copy even when the dtype is right: the original is a view of the mapped
                    # file, which somebody may overwrite.
                    stored = file.get_tensor(weight.stored_name)
                    plain = stored.to(dtype, copy=True).contiguous()
                    tensors[name] = _packed_floats(path, name, plain, weights)
    held = "int8" if weights == "int8" else DTYPE_NAMES[dtype]
    return Checkpoint(folder.config, tensors, None, folder.fingerprint(), held)


def _load_module(path: Path, dtype: torch.dtype, weights: str) -> Checkpoint:
    if weights == "int8":
        raise ConfigError(
            f"weights is 'int8', but the model in {path} is computed by transformers, with its "
            "weights as they are; use 'auto'"
        )
    fingerprint = folder_fingerprint(path, find_shards(path))
    config, module = load_transformers(path, dtype)
    return Checkpoint(config, {}, None, fingerprint, DTYPE_NAMES[dtype], module)


def _check_spare_head(folder: SafetensorsFolder) -> None:
    """Some tools write the tied head a second time; it must not be another one."""
    spare, embedding = folder.spare_head, folder.weights["embed_tokens.weight"]
    if spare is None:
        return
    with (
        safe_open(spare.shard, framework="pt") as file,
        safe_open(embedding.shard, framework="pt") as other,
    ):
        head, tied = file.get_tensor(spare.stored_name), other.get_tensor(embedding.stored_name)
        if not torch.equal(head.to(tied.dtype), tied):
            raise ModelLoadError(
                f"{folder.path}: config.json ties the head to the embeddings, but "
                f"{spare.stored_name} differs from them; correct tie_word_embeddings"
            )


def _load_gguf(path: Path, dtype: torch.dtype, weights: str) -> Checkpoint:
    header = read_gguf(path)
    _check_kinds(header)
    tensors: dict[str, ops.Matrix] = {}
    with path.open("rb", buffering=0) as file, _one_thread():
        factors = header.tensors.get(ROPE_FREQS)
        model = interpret_gguf(
            header,
            None if factors is None else tuple(_unpack(file, factors, torch.float32).tolist()),
        )
        for name, tensor in model.weights.items():
            heads = model.permuted_heads(name)
            # Of a few numbers, like a norm's, nothing is won by packing.
            if weights == "fp32" or len(tensor.shape) == 1:
                tensors[name] = _by_halves(_unpack(file, tensor, dtype), heads)
            elif weights == "int8" and tensor.kind in FLOAT_KINDS:
                plain = _by_halves(_unpack(file, tensor, dtype), heads)
                tensors[name] = _packed_floats(path, name, plain, weights)
            else:
                blocks = _by_halves(_read_blocks(file, tensor), heads)
                tensors[name] = ops.pack_blocks(tensor.kind, blocks)
    held = {"auto": "blocks", "int8": "int8", "fp32": DTYPE_NAMES[dtype]}[weights]
    return Checkpoint(model.config, tensors, header.fields, header.fingerprint(), held)


def _packed_floats(path: Path, name: str, weight: Tensor, weights: str) -> ops.Matrix:
    if weights == "fp32" or weight.dim() == 1:
        return weight
    try:
        return ops.pack_int8(weight) if weights == "int8" else ops.pack_fp32(weight)
    except ValueError as error:
        raise ModelLoadError(f"{path}: {name}: {error}") from error


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch from sharing these operations out among threads.

    They are short, thousands follow each other, and each would wait for the slowest thread. The
    default model, two cores: 0.24 s with two threads and 0.34 s with one on an idle machine, but
    2 to 13 s against 0.4 to 2.4 s when another process wants a core.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check_kinds(header: GGUFFile) -> None:
    for tensor in header.tensors.values():
        if tensor.kind not in SUPPORTED_KINDS:
            raise ModelLoadError(
                f"{header.path}: tensor {tensor.name!r} has the type {tensor.kind}; supported: "
                f"{', '.join(SUPPORTED_KINDS)}"
            )


def _unpack(file: FileIO, tensor: GGUFTensor, dtype: torch.dtype) -> Tensor:
    """Read and unpack one tensor chunk by chunk: scratch memory stays a few megabytes.

    Read, not mapped: a file that shrinks meanwhile is a ModelLoadError and not a SIGBUS.
    """
    weights, num_bytes = block_sizes(tensor.kind)
    num_blocks = tensor.num_bytes // num_bytes
    chunk = min(num_blocks, CHUNK_WEIGHTS // weights)
    raw = torch.empty(chunk, num_bytes, dtype=torch.uint8)
    scratch = torch.empty(chunk, weights)
    out = torch.empty(tensor.shape, dtype=dtype)
    rows = out.view(num_blocks, weights)
    file.seek(tensor.offset)
    for start in range(0, num_blocks, chunk):
        count = min(chunk, num_blocks - start)
        _read_fully(file, raw[:count].numpy().data.cast("B"), tensor)
        target = rows[start : start + count]
        if dtype == torch.float32:
            dequantize(tensor.kind, raw[:count], target)
        else:
            dequantize(tensor.kind, raw[:count], scratch[:count])
            target.copy_(scratch[:count])
    return out


def _read_blocks(file: FileIO, tensor: GGUFTensor) -> Tensor:
    """A matrix as it lies in the file: uint8 [out_features, blocks a row, bytes a block]."""
    _, num_bytes = block_sizes(tensor.kind)
    blocks = torch.empty(tensor.shape[0], tensor.num_bytes // tensor.shape[0], dtype=torch.uint8)
    file.seek(tensor.offset)
    _read_fully(file, blocks.numpy().data.cast("B"), tensor)
    return blocks.view(tensor.shape[0], -1, num_bytes)


def _read_fully(file: FileIO, view: memoryview, tensor: GGUFTensor) -> None:
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise ModelLoadError(f"{file.name} is cut off in tensor {tensor.name!r}")
        done += count


def _by_halves(weight: Tensor, heads: int | None) -> Tensor:
    """Undo the converter's permutation of q and k rows; heads None: they are as they should be.

    In the file the two rows that rotate together are neighbours (2 i, 2 i + 1); here they are
    half a head apart (i, i + head_dim / 2). Bias vectors are permuted alike, and so are blocks.
    """
    if heads is None:
        return weight
    pairs = weight.view(heads, -1, 2, *weight.shape[1:])
    return pairs.transpose(1, 2).reshape(weight.shape)
