"""Two layers as wide as the default model's, random, over few tokens: for tests of the last bit.

A product's blocks and a row's lanes are those of the real model, which a tiny one does not have.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from radixchat.engine.model_config import ModelConfig
from radixchat.engine.weight_shapes import weight_shapes
from radixchat.engine.weights import Checkpoint
from radixchat.kernels import ops

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


def narrow_checkpoint(weights: str = "fp32") -> Checkpoint:
    """The model, the same on every call; logits of about 5 and sharp attention.

    weights: "fp32", plain tensors; "packed", the same numbers; "int8"; "blocks", of four bits.
    """
    generator = torch.Generator().manual_seed(0)
    tensors: dict[str, ops.Matrix] = {}
    for name, shape in weight_shapes(CONFIG).items():
        if len(shape) == 1:
            tensors[name] = 1 + torch.randn(shape, generator=generator) / 5
            continue
        size = 0.2
        if name != "embed_tokens.weight":
            sharp = name.endswith(("q_proj.weight", "k_proj.weight"))
            size = (2 if sharp else 1) * float(shape[1]) ** -0.5
        if weights == "blocks":
            tensors[name] = ops.pack_blocks("Q4_1", _random_blocks(shape, size, generator))
            continue
        plain = torch.randn(shape, generator=generator) * size
        pack: dict[str, Callable[[Tensor], ops.Matrix]]
        pack = {"fp32": Tensor.contiguous, "packed": ops.pack_fp32, "int8": ops.pack_int8}
        tensors[name] = pack[weights](plain)
    held = "fp32" if weights == "packed" else weights
    return Checkpoint(CONFIG, tensors, None, f"narrow {weights}", held)


def _random_blocks(shape: tuple[int, ...], size: float, generator: torch.Generator) -> Tensor:
    """Q4_1 blocks, uint8 [out, in / 32, 20], of weights about as large as `size`."""
    out_features, in_features = shape
    blocks = out_features, in_features // 32
    scales = (0.5 + torch.rand(*blocks, 1, generator=generator)) * size / 4.6
    minima = scales * -(7 + torch.rand(*blocks, 1, generator=generator))
    codes = torch.randint(0, 256, (*blocks, 16), generator=generator, dtype=torch.uint8)
    halves = torch.cat((scales, minima), dim=-1).half().view(torch.uint8)
    return torch.cat((halves, codes), dim=-1)
