"""Rotary tables against transformers' own, for every scaling kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig, RopeScaling
from radixchat.engine.rope import rotary_frequencies, rotary_tables

ORIGINAL, POSITIONS, DIM, THETA = 256, 1024, 64, 500_000.0


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(
        architecture="llama",
        num_layers=1,
        hidden_size=4 * DIM,
        intermediate_size=64,
        num_heads=4,
        num_kv_heads=2,
        head_dim=DIM,
        vocab_size=64,
        max_position=POSITIONS,
        rms_eps=1e-5,
        rope_theta=THETA,
        **changes,
    )


def reference(parameters: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' cos and sin [positions, dim / 2] for its spelling of the same scaling."""
    hf_config = LlamaConfig(
        hidden_size=4 * DIM,
        num_attention_heads=4,
        head_dim=DIM,
        max_position_embeddings=POSITIONS,
        rope_parameters={"rope_theta": THETA, **parameters},
    )
    embedding = LlamaRotaryEmbedding(hf_config)
    cos, sin = embedding(torch.zeros(1, 1), torch.arange(POSITIONS).unsqueeze(0))
    return cos[0, :, : DIM // 2], sin[0, :, : DIM // 2]


@pytest.mark.parametrize(
    ("scaling", "parameters"),
    [
        (None, {"rope_type": "default"}),
        (RopeScaling("linear", 4.0, ORIGINAL), {"rope_type": "linear", "factor": 4.0}),
        (
            RopeScaling("llama3", 8.0, ORIGINAL, low_freq_factor=1.0, high_freq_factor=4.0),
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": ORIGINAL,
            },
        ),
        (
            RopeScaling("yarn", 4.0, ORIGINAL),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": ORIGINAL,
            },
        ),
        (
            RopeScaling("yarn", 4.0, ORIGINAL, attention_factor=1.5, truncate=False),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": ORIGINAL,
                "attention_factor": 1.5,
                "truncate": False,
            },
        ),
    ],
)
def test_tables_equal_those_of_transformers(
    scaling: RopeScaling | None, parameters: dict[str, Any]
) -> None:
    """Each scaling kind gives transformers' cos and sin, at positions beyond the trained ones."""
    cos, sin = rotary_tables(config(rope_scaling=scaling), POSITIONS)
    expected_cos, expected_sin = reference(parameters)
    torch.testing.assert_close(cos, expected_cos, atol=1e-6, rtol=0)
    torch.testing.assert_close(sin, expected_sin, atol=1e-6, rtol=0)


def test_frequency_factors_of_a_checkpoint_divide_the_frequencies() -> None:
    """The factors that a GGUF ships for Llama 3 replace the formula."""
    plain, _ = rotary_frequencies(config())
    factors = tuple(float(i + 1) for i in range(DIM // 2))
    divided, scale = rotary_frequencies(config(rope_freq_factors=factors))
    assert torch.equal(divided, plain / torch.tensor(factors))
    assert scale == 1.0


def test_an_unknown_scaling_is_named() -> None:
    """A checkpoint with a scaling we do not have is refused with the kinds we do."""
    with pytest.raises(ModelLoadError, match=r"longrope.*linear, llama3, yarn"):
        rotary_tables(config(rope_scaling=RopeScaling("longrope", 4.0, ORIGINAL)), 8)
