"""The models that a GPU is measured with: a file, whole or in pieces, and random numbers.

Nothing is installed where this runs: the file is found by its path. Knows no engine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from radixchat.engine.model_config import ModelConfig
from radixchat.engine.weights import Checkpoint, load_checkpoint

LLAMA_8B = ModelConfig(
    architecture="llama",
    num_layers=32,
    hidden_size=4096,
    intermediate_size=14336,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    vocab_size=128256,
    max_position=8192,
    rms_eps=1e-5,
    rope_theta=500000.0,
)
# For a dry run.
TINY = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=272,
    max_position=512,
    rms_eps=1e-5,
    rope_theta=10000.0,
    tied_embeddings=True,
)
# Logits of random weights of this size are finite in fp16.
_DEVIATION = 0.02


def random_checkpoint(config: ModelConfig, dtype: torch.dtype, device: str) -> Checkpoint:
    """A model of this shape, the same numbers each time; made where they are needed."""
    generator = torch.Generator(device).manual_seed(0)

    def matrix(*shape: int) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype, device=device)
        return out.normal_(0, _DEVIATION, generator=generator)

    hidden, heads = config.hidden_size, config.num_heads * config.head_dim
    kv = config.num_kv_heads * config.head_dim
    ones = torch.ones(hidden, dtype=dtype, device=device)
    tensors = {"embed_tokens.weight": matrix(config.vocab_size, hidden), "norm.weight": ones}
    if not config.tied_embeddings:
        tensors["lm_head.weight"] = matrix(config.vocab_size, hidden)
    for layer in range(config.num_layers):
        prefix = f"layers.{layer}"
        tensors |= {
            f"{prefix}.input_layernorm.weight": ones,
            f"{prefix}.post_attention_layernorm.weight": ones,
            f"{prefix}.self_attn.q_proj.weight": matrix(heads, hidden),
            f"{prefix}.self_attn.k_proj.weight": matrix(kv, hidden),
            f"{prefix}.self_attn.v_proj.weight": matrix(kv, hidden),
            f"{prefix}.self_attn.o_proj.weight": matrix(hidden, heads),
            f"{prefix}.mlp.gate_proj.weight": matrix(config.intermediate_size, hidden),
            f"{prefix}.mlp.up_proj.weight": matrix(config.intermediate_size, hidden),
            f"{prefix}.mlp.down_proj.weight": matrix(hidden, config.intermediate_size),
        }
    return Checkpoint(config, tensors, None, "random")


@contextmanager
def whole_file(pieces: Sequence[Path]) -> Iterator[Path]:
    """One path for a file that came in pieces, in this order; a single piece is the file."""
    if len(pieces) == 1:
        yield pieces[0]
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        with path.open("wb") as whole:
            for piece in pieces:
                with piece.open("rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 24)
        yield path


def file_checkpoint(pieces: Sequence[Path], dtype: torch.dtype) -> Checkpoint:
    """The model of a file or its pieces; raises ModelLoadError."""
    with whole_file(pieces) as path:
        return load_checkpoint(path, dtype)
