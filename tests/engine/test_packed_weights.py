"""Checkpoints packed for the CPU's products: the file's weights to the bit, or 8 bits of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from radixchat.engine.errors import ConfigError, ModelLoadError
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.kernels import ops
from radixchat.tests.engine.tiny_checkpoints import random_model, write_gguf

KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
FORMATS = {"F32": "fp32", "F16": "fp32", "BF16": "fp32", "Q4_0": "uint4", "Q4_1": "uint4"}


def formats(checkpoint: Checkpoint) -> set[str]:
    """Those of all matrices, "plain" for tensors."""
    matrices = [weight for weight in checkpoint.tensors.values() if len(weight.shape) == 2]
    return {"plain" if isinstance(weight, Tensor) else weight.format for weight in matrices}


def assert_same(ours: Checkpoint, theirs: Checkpoint) -> None:
    """Equal weights, whatever they are packed in."""
    packed, plain = ours.dense(), theirs.dense()
    assert packed.keys() == plain.keys()
    for name, weight in plain.items():
        assert torch.equal(packed[name], weight), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_gguf_s_blocks_are_packed_without_rounding(tmp_path: Path, kind: str) -> None:
    """q and k in the order of halves, too; vectors stay tensors; 4-bit codes stay 4 bits."""
    path = write_gguf(tmp_path / "tiny.gguf", "llama", random_model("llama"), kind=kind)
    packed = load_checkpoint(path, weights="auto")
    assert formats(packed) == {FORMATS.get(kind, "int8")}
    assert packed.weights == "blocks"
    assert isinstance(packed.tensors["norm.weight"], Tensor)
    assert_same(packed, load_checkpoint(path))


def test_biases_and_a_head_of_its_own_come_along(tmp_path: Path) -> None:
    """A family with more weights than Llama's."""
    model = random_model("qwen2", tie_word_embeddings=False)
    path = write_gguf(tmp_path / "tiny.gguf", "qwen2", model, kind="Q4_1")
    packed = load_checkpoint(path, weights="auto")
    assert isinstance(packed.tensors["lm_head.weight"], ops.PackedMatrix)
    assert isinstance(packed.tensors["layers.0.self_attn.q_proj.bias"], Tensor)
    assert_same(packed, load_checkpoint(path))


def test_a_folder_s_matrices_are_packed_as_fp32(tmp_path: Path) -> None:
    """Their numbers are not changed, so their format is the plain ones' too."""
    random_model("qwen3").save_pretrained(tmp_path)
    packed = load_checkpoint(tmp_path, weights="auto")
    assert formats(packed) == {"fp32"}
    assert packed.weights == "fp32"
    assert_same(packed, load_checkpoint(tmp_path))
    assert formats(load_checkpoint(tmp_path)) == {"plain"}


def test_int8_rounds_a_folder_s_matrices_as_q8_0_does(tmp_path: Path) -> None:
    """To the bit what the gguf package makes of them; vectors are not rounded."""
    random_model("llama").save_pretrained(tmp_path)
    rounded, exact = load_checkpoint(tmp_path, weights="int8"), load_checkpoint(tmp_path).dense()
    assert (rounded.weights, formats(rounded)) == ("int8", {"int8"})
    for name, weight in rounded.dense().items():
        expected = exact[name].numpy()
        if expected.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            expected = quants.dequantize(quants.quantize(expected, kind), kind)
        assert np.array_equal(weight.numpy(), expected), name


def test_int8_rounds_floats_of_a_gguf_and_keeps_its_blocks(tmp_path: Path) -> None:
    """F16 becomes what the folder becomes; what has 8 bits or fewer is not rounded again."""
    model = random_model("llama")
    model.half().float().save_pretrained(tmp_path / "folder")
    half = write_gguf(tmp_path / "half.gguf", "llama", model, kind="F16")
    folder = load_checkpoint(tmp_path / "folder", weights="int8")
    assert_same(load_checkpoint(half, weights="int8"), folder)
    path = write_gguf(tmp_path / "four.gguf", "llama", model, kind="Q4_1")
    four = load_checkpoint(path, weights="int8")
    assert (four.weights, formats(four)) == ("int8", {"uint4"})
    assert_same(four, load_checkpoint(path))


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    """A word that there is not, and packed weights of another dtype than fp32."""
    random_model("llama").save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="weights is 'int4'; it must be one of auto, fp32, int8"):
        load_checkpoint(tmp_path, weights="int4")
    with pytest.raises(ConfigError, match=r"weights is 'auto'.*dtype is torch\.bfloat16"):
        load_checkpoint(tmp_path, torch.bfloat16, "auto")


def test_weights_that_int8_cannot_hold_are_named(tmp_path: Path) -> None:
    """An infinite one has no scale: the file is damaged, or wants fp32."""
    model = random_model("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 3] = torch.inf
    model.save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=r"layers\.1\.mlp\.up_proj\.weight"):
        load_checkpoint(tmp_path, weights="int8")


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    """Packed or plain."""
    path = write_gguf(tmp_path / "tiny.gguf", "llama", random_model("llama"), kind="Q8_0")
    path.write_bytes(path.read_bytes()[:-40])
    for weights in ("auto", "fp32"):
        with pytest.raises(ModelLoadError, match="is cut off"):
            load_checkpoint(path, weights=weights)


@pytest.mark.model
def test_the_default_model_is_packed_to_the_bit(default_model: Path) -> None:
    """Its blocks take about the memory that they take in the file, and are what they were."""
    packed = load_checkpoint(default_model, weights="auto")
    matrices = [weight for weight in packed.tensors.values() if not isinstance(weight, Tensor)]
    assert sum(matrix.num_bytes for matrix in matrices) < default_model.stat().st_size
    assert formats(packed) == {"uint4", "int8"}
    assert_same(packed, load_checkpoint(default_model))
