"""The default model's file: what it is, and that its weights speak English."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from radixchat.engine.pinned_wheel import SMOLLM2_135M
from radixchat.engine.weights import load_checkpoint
from radixchat.tests.engine.reference_decoder import reference_decoder

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
    assert sum(tensor.numel() for tensor in checkpoint.dense().values()) == 134_515_008
    model = reference_decoder(checkpoint)
    logits = model(torch.tensor([QUESTION + ANSWER[:-1]])).logits[0]
    assert logits[len(QUESTION) - 1 :].argmax(dim=-1).tolist() == ANSWER
