"""Two layers as wide as the default model's, random, over few tokens: for tests of the last bit.

A product's blocks and a row's lanes are those of the real model, which a tiny one does not have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from radixchat.engine.model_config import ModelConfig
from radixchat.engine.weight_shapes import weight_shapes
from radixchat.engine.weights import Checkpoint

CONFIG = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=576,
    intermediate_size=1536,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    vocab_size=272,
    max_position=512,
    rms_eps=1e-5,
    rope_theta=10000.0,
    tied_embeddings=True,
)


def narrow_checkpoint() -> Checkpoint:
    """The model in fp32, the same on every call; logits of about 5 and sharp attention."""
    generator = torch.Generator().manual_seed(0)
    tensors: dict[str, Tensor] = {}
    for name, shape in weight_shapes(CONFIG).items():
        weight = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            weight = 1 + weight / 5
        elif name.endswith(("q_proj.weight", "k_proj.weight")):
            weight *= 2 * float(shape[1]) ** -0.5
        elif name != "embed_tokens.weight":
            weight *= float(shape[1]) ** -0.5
        tensors[name] = weight
    tensors["embed_tokens.weight"] /= 5
    return Checkpoint(CONFIG, tensors, None, "narrow")
