"""One tiny random model of each supported architecture, as transformers saves it and as GGUF.

The GGUF is written as llama.cpp's converter does: its tensor names, and q and k permuted for the
architectures whose files rotate neighbouring rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType, GGUFWriter, quants
from torch import Tensor

FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
FAMILIES["smollm3"] = "SmolLM3"
LAYERS = {"smollm3": 5}  # one more than the step of its layers without rotary positions
PERMUTED = ("llama", "smollm3")
SHAPE = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def random_model(architecture: str, **changes: Any) -> Any:
    """A transformers model in fp32 with every weight random, norms and biases too."""
    torch.manual_seed(0)
    family = FAMILIES[architecture]
    settings = {**SHAPE, "num_hidden_layers": LAYERS.get(architecture, 2), **changes}
    if architecture == "mistral":
        settings.setdefault("sliding_window", None)
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def canonical_weights(model: Any) -> dict[str, Tensor]:
    """The model's weights under our names, without a tied head."""
    weights = {name.removeprefix("model."): value for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    return weights


def permute(weight: Tensor, heads: int) -> Tensor:
    """What the converter does to q and k: row i of a head's first half goes to 2 i."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(
    path: Path,
    architecture: str,
    model: Any,
    *,
    kind: str = "F32",
    fields: Mapping[str, Any] | None = None,
    extra: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a model as GGUF; matrices in block format `kind`, more fields and tensors on top."""
    config = model.config
    writer = GGUFWriter(path, architecture)
    values = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.freq_base": float(config.rope_parameters["rope_theta"]),
    }
    tokens = {
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "<|eot_id|>", "é"],
        "tokenizer.ggml.token_type": [2, 3, 3, 3, 1],
        "tokenizer.ggml.bos_token_id": config.bos_token_id,
        "tokenizer.ggml.eos_token_id": config.eos_token_id,
        "tokenizer.ggml.add_bos_token": True,
    }
    prefixed = {f"{architecture}.{key}": value for key, value in values.items()}
    for key, value in {**prefixed, **tokens, **(fields or {})}.items():
        _add(writer, key, value)
    for name, weight in {**_gguf_tensors(architecture, model), **(extra or {})}.items():
        matrix = weight.ndim == 2
        _add_tensor(writer, name, weight, kind if matrix else "F32")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: Any, key: str, value: object) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _add_tensor(writer: Any, name: str, weight: Tensor, kind: str) -> None:
    block_type = GGMLQuantizationType[kind]
    data = quants.quantize(np.ascontiguousarray(weight.numpy()), block_type)
    writer.add_tensor(name, data, raw_dtype=block_type)


def _gguf_tensors(architecture: str, model: Any) -> dict[str, Tensor]:
    config = model.config
    tensors = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, kind = name.rpartition(".")
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        count = heads.get(stem.rpartition(".")[2])
        if architecture in PERMUTED and count is not None:
            weight = permute(weight, count)
        layer = stem.removeprefix("model.layers.").split(".", 1)
        if len(layer) == 2 and layer[0].isdigit():
            tensors[f"blk.{layer[0]}.{GGUF_NAMES[layer[1]]}.{kind}"] = weight
        else:
            tensors[f"{GGUF_NAMES[stem]}.{kind}"] = weight
    return tensors
