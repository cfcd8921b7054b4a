"""Every weight a decoder needs, by its canonical name.

The names are Hugging Face's for Llama without the leading "model.". Knows no file format: both
`engine/gguf_model.py` and `engine/safetensors_folder.py` check their tables against this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig

MAX_NAMED = 3
# A count from a damaged file must not build a table that fills the memory.
MAX_LAYERS = 1000


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name → shape, [out_features, in_features] for a matrix; lm_head only when it is not tied."""
    hidden = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (config.vocab_size, hidden),
        "norm.weight": (hidden,),
    }
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for layer in range(config.num_layers):
        for name, shape in _layer_shapes(config).items():
            shapes[f"layers.{layer}.{name}"] = shape
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, hidden),
        "self_attn.k_proj.weight": (key, hidden),
        "self_attn.v_proj.weight": (key, hidden),
        "self_attn.o_proj.weight": (hidden, query),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.attention_bias:
        shapes["self_attn.q_proj.bias"] = (query,)
        shapes["self_attn.k_proj.bias"] = (key,)
        shapes["self_attn.v_proj.bias"] = (key,)
    if config.attention_out_bias:
        shapes["self_attn.o_proj.bias"] = (hidden,)
    if config.qk_norm:
        shapes["self_attn.q_norm.weight"] = (config.head_dim,)
        shapes["self_attn.k_norm.weight"] = (config.head_dim,)
    return shapes


def check_weights(config: ModelConfig, found: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Raise ModelLoadError unless `found` has exactly the weights the config asks for.

    A weight too many is an error as well: to leave one out would be to compute another model.
    """
    _check_heads(config, path)
    expected = weight_shapes(config)
    missing = [name for name in expected if name not in found]
    if missing:
        raise ModelLoadError(f"{path} lacks {_named(missing)}; the checkpoint is incomplete")
    unknown = [name for name in found if name not in expected]
    if unknown:
        raise ModelLoadError(
            f"{path} has weights that a {config.architecture} decoder has no use for: "
            f"{_named(unknown)}; this variant is not supported"
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise ModelLoadError(
                f"{path}: {name} has the shape {list(found[name])}, its config asks for "
                f"{list(shape)}"
            )


def _check_heads(config: ModelConfig, path: Path) -> None:
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise ModelLoadError(
            f"{path}: {config.num_heads} query heads over {config.num_kv_heads} key heads of "
            f"{config.head_dim}; the first must be a multiple of the second, the third even"
        )


def check_layers(num_layers: int, path: Path) -> int:
    """The number of layers, when it is plausible; ModelLoadError otherwise."""
    if num_layers > MAX_LAYERS:
        raise ModelLoadError(
            f"{path} claims {num_layers} layers; at most {MAX_LAYERS} are possible"
        )
    return num_layers


def _named(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
