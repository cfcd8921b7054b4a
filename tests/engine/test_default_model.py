"""The default model's file: what it is, and that its weights speak English."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from radixchat.engine.pinned_wheel import SMOLLM2_135M
from radixchat.engine.weights import load_checkpoint

# "<|im_start|>system … SmolLM …<|im_end|> … What is the capital of France? …assistant\n"
QUESTION = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018]
QUESTION += [411, 407, 19712, 8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47]
QUESTION += [2, 198, 1, 520, 9531, 198]
ANSWER = [504, 3575, 282, 4649, 314, 7042, 30, 2]  # "The capital of France is Paris.<|im_end|>"


@pytest.mark.model
def test_the_default_model_answers_in_transformers_own_decoder(default_model: Path) -> None:
    """Its rows are in the order that halves rotate: otherwise the answer would be noise."""
    assert default_model.stat().st_size == SMOLLM2_135M.file_bytes
    checkpoint = load_checkpoint(default_model)
    config = checkpoint.config
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.head_dim, config.max_position, config.rope_theta) == (64, 8192, 100000.0)
    assert config.vocab_size == 49152
    assert sum(tensor.numel() for tensor in checkpoint.tensors.values()) == 134_515_008
    with torch.device("meta"):
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                num_key_value_heads=config.num_kv_heads,
                max_position_embeddings=config.max_position,
                rms_norm_eps=config.rms_eps,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
                tie_word_embeddings=True,
            )
        )
    weights = {f"model.{name}": tensor for name, tensor in checkpoint.tensors.items()}
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    # A buffer, not a weight: it stays on the meta device unless it is computed again.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    logits = model(torch.tensor([QUESTION + ANSWER[:-1]])).logits[0]
    assert logits[len(QUESTION) - 1 :].argmax(dim=-1).tolist() == ANSWER
