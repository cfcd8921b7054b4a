"""Checkpoints in both formats: transformers' weights to the bit, and clear errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFReader, quants
from safetensors.torch import load_file, save_file

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.weight_shapes import weight_shapes
from radixchat.engine.weights import Checkpoint, inspect_checkpoint, load_checkpoint
from radixchat.tests.engine.tiny_checkpoints import (
    FAMILIES,
    canonical_weights,
    random_model,
    write_gguf,
)


def _save(folder: Path, architecture: str = "llama", **changes: Any) -> Any:
    """Save a random model in folder and return it."""
    size = changes.pop("max_shard_size", "1GB")
    model = random_model(architecture, **changes)
    model.save_pretrained(folder, max_shard_size=size)
    return model


def _assert_equal(checkpoint: Checkpoint, model: Any) -> None:
    expected = canonical_weights(model)
    assert checkpoint.tensors.keys() == expected.keys()
    for name, weight in checkpoint.dense().items():
        assert weight.dtype == torch.float32
        assert weight.is_contiguous()
        assert torch.equal(weight, expected[name]), name


@pytest.mark.parametrize("architecture", FAMILIES)
@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_loads_as_transformers_saved_it(
    tmp_path: Path, architecture: str, tied: bool
) -> None:
    """Every architecture, with and without a head of its own."""
    model = _save(tmp_path, architecture, tie_word_embeddings=tied)
    checkpoint = load_checkpoint(tmp_path)
    _assert_equal(checkpoint, model)
    assert checkpoint.config.architecture == architecture
    assert checkpoint.config.tied_embeddings is tied
    assert checkpoint.fields is None
    assert inspect_checkpoint(tmp_path) == checkpoint.config


def test_shards_load_as_one(tmp_path: Path) -> None:
    """Five files or more and an index give the same weights."""
    model = _save(tmp_path, "qwen2", max_shard_size="50KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) >= 5
    _assert_equal(load_checkpoint(tmp_path), model)


def test_a_gguf_and_a_folder_of_one_model_are_one_checkpoint(tmp_path: Path) -> None:
    """Same config, same tensors, and the metadata comes along for the tokenizer."""
    model = _save(tmp_path / "folder")
    folder = load_checkpoint(tmp_path / "folder")
    tensors = folder.dense()
    file = load_checkpoint(write_gguf(tmp_path / "tiny.gguf", "llama", model))
    assert file.config.unrotated_layers == folder.config.unrotated_layers
    assert weight_shapes(file.config) == weight_shapes(folder.config)
    assert file.dense().keys() == tensors.keys()
    assert all(torch.equal(file.dense()[name], tensors[name]) for name in tensors)
    assert file.fields is not None
    assert file.fields["tokenizer.ggml.eos_token_id"] == 2


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_a_quantised_file_loads_as_the_gguf_package_unpacks_it(tmp_path: Path, kind: str) -> None:
    """Whole tensors, more than two chunks long and with a rest; v is not permuted."""
    model = random_model("llama", vocab_size=4100)
    path = write_gguf(tmp_path / "tiny.gguf", "llama", model, kind=kind)
    tensors = load_checkpoint(path).dense()
    stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    for ours, theirs in (
        ("embed_tokens.weight", "token_embd.weight"),
        ("layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ("layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
    ):
        expected = quants.dequantize(stored[theirs].data, stored[theirs].tensor_type)
        assert torch.equal(tensors[ours], torch.from_numpy(expected.copy())), ours


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_another_dtype_is_the_rounded_fp32(tmp_path: Path, dtype: torch.dtype) -> None:
    """In both formats every tensor has the dtype that was asked for."""
    model = _save(tmp_path)
    path = write_gguf(tmp_path / "tiny.gguf", "llama", model, kind="Q8_0")
    for source in (tmp_path, path):
        rounded, exact = load_checkpoint(source, dtype), load_checkpoint(source)
        for name, weight in rounded.dense().items():
            assert weight.dtype == dtype
            assert torch.equal(weight, exact.dense()[name].to(dtype))


def test_loading_leaves_torchs_threads_as_they_were(tmp_path: Path) -> None:
    """Blocks are unpacked on one thread, and only they, also when loading fails."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        path = write_gguf(tmp_path / "tiny.gguf", "llama", random_model("llama"))
        load_checkpoint(path)
        assert torch.get_num_threads() == 2
        bad = write_gguf(
            tmp_path / "bad.gguf",
            "llama",
            random_model("llama"),
            extra={"rope_freqs.weight": torch.ones(3)},
        )
        with pytest.raises(ModelLoadError):
            load_checkpoint(bad)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_tensor_of_the_loaded_folder_does_not_follow_the_file(tmp_path: Path) -> None:
    """Weights are copies: overwriting the file changes nothing that runs."""
    _save(tmp_path)
    checkpoint = load_checkpoint(tmp_path)
    before = checkpoint.dense()["norm.weight"].clone()
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.write(bytes((tmp_path / "model.safetensors").stat().st_size))
    assert torch.equal(checkpoint.dense()["norm.weight"], before)


def test_fingerprints_tell_weights_apart_and_not_their_places(tmp_path: Path) -> None:
    """A copy has the same; one changed tensor, wherever it lies in the file, another."""
    _save(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = load_checkpoint(tmp_path / "a").fingerprint
    assert load_checkpoint(tmp_path / "b").fingerprint == first
    seen = {first}
    for name in ("model.embed_tokens.weight", "model.layers.1.self_attn.v_proj.weight"):
        tensors = load_file(tmp_path / "a" / "model.safetensors")
        tensors[name][0, 0] += 1
        save_file(tensors, tmp_path / "b" / "model.safetensors", metadata={"format": "pt"})
        seen.add(load_checkpoint(tmp_path / "b").fingerprint)
    assert len(seen) == 3


def test_a_tied_head_written_a_second_time_must_be_the_same(tmp_path: Path) -> None:
    """An equal one is left out; a different one contradicts config.json."""
    model = _save(tmp_path, tie_word_embeddings=True)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, path, metadata={"format": "pt"})
    _assert_equal(load_checkpoint(tmp_path), model)
    tensors["lm_head.weight"][3, 3] += 1
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"lm_head\.weight differs.*tie_word_embeddings"):
        load_checkpoint(tmp_path)


def test_rotary_frequencies_of_old_llama_files_are_no_obstacle(tmp_path: Path) -> None:
    """They follow from the config."""
    model = _save(tmp_path)
    path = tmp_path / "model.safetensors"
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    save_file({**load_file(path), **extra}, path, metadata={"format": "pt"})
    _assert_equal(load_checkpoint(tmp_path), model)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """The index names it, the folder lacks it."""
    _save(tmp_path, max_shard_size="50KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[2]
    shard.unlink()
    with pytest.raises(ModelLoadError, match=f"lacks the shard {shard.name}"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.norm.weight": None}, r"lacks norm\.weight; the checkpoint is incomplete"),
        (
            {"model.norm.weight": torch.ones(5)},
            r"norm\.weight has the shape \[5\].*asks for \[64\]",
        ),
        ({"model.layers.2.mlp.up_proj.weight": torch.ones(2)}, r"no use for: layers\.2\.mlp"),
        ({"model.norm.weight": torch.ones(64, dtype=torch.int8)}, "type I8; supported: F64, F32"),
    ],
)
def test_missing_wrong_and_unknown_tensors_are_named(
    tmp_path: Path, change: dict[str, torch.Tensor | None], message: str
) -> None:
    """The tensor, and what the config asks for."""
    _save(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = {**load_file(path), **change}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, path, metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=message):
        load_checkpoint(tmp_path)


def test_damaged_safetensors_are_model_load_errors(tmp_path: Path) -> None:
    """Cut off anywhere, or with a header that is none."""
    _save(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    for length in (0, 4, 8, 100, 3000, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ModelLoadError, match=r"model\.safetensors is damaged"):
            load_checkpoint(tmp_path)
    for place in (0, 3, 8, 20, 200):
        path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        with pytest.raises(ModelLoadError, match=r"model\.safetensors is damaged"):
            load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"a": "../outside.safetensors"}}, "names a shard outside its folder"),
        ({"weight_map": {"a": "/etc/passwd"}}, "names a shard outside its folder"),
        ({"weight_map": {}}, "no weight_map"),
        ({"weight_map": ["a"]}, "no weight_map"),
    ],
)
def test_a_damaged_or_hostile_index_is_refused(
    tmp_path: Path, index: dict[str, Any], message: str
) -> None:
    """An index names files of its own folder only."""
    _save(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelLoadError, match=message):
        load_checkpoint(tmp_path)


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    """Nothing there, an empty folder, a folder without weights, a file of another format."""
    with pytest.raises(ModelLoadError, match="there is no model at"):
        load_checkpoint(tmp_path / "nothing")
    with pytest.raises(ModelLoadError, match=r"config\.json: No such file"):
        load_checkpoint(tmp_path)
    _save(tmp_path / "folder")
    (tmp_path / "folder" / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"neither model\.safetensors nor"):
        load_checkpoint(tmp_path / "folder")
    with pytest.raises(ModelLoadError, match="not a GGUF file"):
        load_checkpoint(tmp_path / "folder" / "config.json")
