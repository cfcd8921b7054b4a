"""What GGUF fields mean: every supported architecture, rope scalings, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig, RopeScaling
from radixchat.engine.weights import inspect_checkpoint, load_checkpoint
from radixchat.tests.engine.tiny_checkpoints import (
    SHAPE,
    canonical_weights,
    random_model,
    write_gguf,
)


def _write(path: Path, architecture: str = "llama", **options: Any) -> Path:
    changes = options.pop("changes", {})
    return write_gguf(
        path / "model.gguf", architecture, random_model(architecture, **changes), **options
    )


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "smollm3"])
@pytest.mark.parametrize("tied", [False, True])
def test_each_architecture_loads_as_transformers_has_it(
    tmp_path: Path, architecture: str, tied: bool
) -> None:
    """Same weights to the bit, q and k in order again, nothing more and nothing less."""
    model = random_model(architecture, tie_word_embeddings=tied)
    checkpoint = load_checkpoint(write_gguf(tmp_path / "model.gguf", architecture, model))
    expected = canonical_weights(model)
    assert checkpoint.tensors.keys() == expected.keys()
    for name, weight in checkpoint.dense().items():
        assert torch.equal(weight, expected[name]), name
        assert weight.is_contiguous()
    config = checkpoint.config
    assert config.tied_embeddings is tied
    assert config.attention_bias is (architecture == "qwen2")
    assert config.qk_norm is (architecture == "qwen3")
    assert config.unrotated_layers == (frozenset({3}) if architecture == "smollm3" else frozenset())


def test_bias_vectors_of_a_llama_are_put_in_order_too(tmp_path: Path) -> None:
    """The converter permutes q and k biases like the rows of their matrices."""
    model = random_model("llama", attention_bias=True)
    checkpoint = load_checkpoint(write_gguf(tmp_path / "model.gguf", "llama", model))
    expected = canonical_weights(model)
    assert checkpoint.config.attention_bias
    assert checkpoint.config.attention_out_bias
    for part in "qkvo":
        name = f"layers.1.self_attn.{part}_proj.bias"
        assert torch.equal(checkpoint.dense()[name], expected[name])


def test_the_config_holds_every_number_of_the_file(tmp_path: Path) -> None:
    """Every dimension, from the fields and the shapes."""
    config = inspect_checkpoint(_write(tmp_path))
    assert config == ModelConfig(
        architecture="llama",
        num_layers=2,
        hidden_size=64,
        intermediate_size=128,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        vocab_size=SHAPE["vocab_size"],
        max_position=256,
        rms_eps=config.rms_eps,
        rope_theta=10000.0,
    )
    assert config.rms_eps == pytest.approx(1e-6)


def test_rope_scalings_are_read(tmp_path: Path) -> None:
    """Linear and YaRN by their fields, Llama 3 by its tensor of factors."""
    yarn = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 64,
        "llama.rope.scaling.yarn_beta_fast": 24.0,
        "llama.rope.scaling.yarn_attn_factor": 1.5,
        "llama.rope.scaling.yarn_log_multiplier": 0.5,
    }
    assert inspect_checkpoint(_write(tmp_path, fields=yarn)).rope_scaling == RopeScaling(
        "yarn", 4.0, 64, beta_fast=24.0, attention_factor=1.5, mscale=1.0, mscale_all_dim=0.5
    )
    assert inspect_checkpoint(tmp_path / "model.gguf").max_position == 256  # 4 * 64
    yarn["llama.rope.scaling.original_context_length"] = 256
    assert inspect_checkpoint(_write(tmp_path, fields=yarn)).max_position == 1024
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    scaling = inspect_checkpoint(_write(tmp_path, fields=linear)).rope_scaling
    assert scaling == RopeScaling("linear", 2.0, 256)
    factors = torch.arange(1, 9, dtype=torch.float32)
    checkpoint = load_checkpoint(_write(tmp_path, extra={"rope_freqs.weight": factors}))
    assert checkpoint.config.rope_freq_factors == tuple(factors.tolist())
    assert "rope_freqs.weight" not in checkpoint.tensors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"llama.expert_count": 8}, "a mixture of experts is not supported"),
        ({"llama.attention.sliding_window": 4096}, "sliding window attention is not supported"),
        ({"llama.rope.scaling.type": "longrope"}, "scaling.type is 'longrope'.*linear and yarn"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count is 8, heads have 16"),
        ({"llama.attention.value_length": 32}, "value_length is 32, heads have 16"),
        ({"llama.attention.head_count_kv": [2, 1]}, r"head_count_kv is \[2, 1\]"),
        ({"llama.attention.head_count_kv": 3}, "4 query heads over 3 key heads"),
        ({"llama.block_count": 3}, r"lacks layers.2.input_layernorm.weight, .* and 6 more"),
        ({"llama.block_count": 1}, "no use for: layers.1"),
        ({"llama.block_count": 2**31}, "claims 2147483648 layers"),
        ({"llama.feed_forward_length": 64}, r"shape \[128, 64\], its config asks for \[64, 64\]"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "must be a positive number"),
        ({"llama.context_length": "long"}, "context_length is 'long'"),
        ({"split.count": 3}, "one of 3 parts; merge them"),
        (
            {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.yarn_ext_factor": 0.0},
            "extrapolation factor is not supported",
        ),
    ],
)
def test_what_is_unsupported_or_contradictory_is_named(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    """Nothing is computed with a model that is not quite the one in the file."""
    with pytest.raises(ModelLoadError, match=message):
        inspect_checkpoint(_write(tmp_path, fields=fields))


def test_an_unsupported_architecture_is_named_with_those_that_are(tmp_path: Path) -> None:
    """The message says what would do."""
    path = write_gguf(tmp_path / "model.gguf", "gemma2", random_model("qwen2"))
    with pytest.raises(ModelLoadError, match="'gemma2' is not supported; supported: llama, qwen2"):
        inspect_checkpoint(path)


def test_an_unsupported_block_format_is_named_with_its_tensor(tmp_path: Path) -> None:
    """A ternary format: the tensor, the type, and what is supported."""
    model = random_model("llama", hidden_size=256, intermediate_size=256, head_dim=64)
    path = write_gguf(tmp_path / "model.gguf", "llama", model, kind="TQ2_0")
    with pytest.raises(
        ModelLoadError, match=r"'token_embd.weight' has the type TQ2_0.*F32, .*Q6_K"
    ):
        load_checkpoint(path)


def test_unknown_and_missing_tensors_are_named(tmp_path: Path) -> None:
    """To leave a tensor out would be to compute another model."""
    extra = {"blk.0.attn_sinks.weight": torch.ones(4)}
    with pytest.raises(ModelLoadError, match=r"no use for: blk\.0\.attn_sinks"):
        inspect_checkpoint(_write(tmp_path, extra=extra))
    with pytest.raises(ModelLoadError, match=r"rope_freqs\.weight has 3 factors"):
        load_checkpoint(_write(tmp_path, extra={"rope_freqs.weight": torch.ones(3)}))
