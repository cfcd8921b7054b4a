"""A model small enough to run thousands of steps in a test: random weights, real code path.

Two layers, grouped-query attention, a byte-level tokenizer whose every byte is a token, and a
ChatML template. Its text is noise, which is what makes it a strict reader of a cache: every bit
of every K and V shows in the next token.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

CONTEXT = 512
HIDDEN, INTERMEDIATE, LAYERS = 64, 128, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 256 + len(CONTROL_TOKENS) + 5  # a multiple of 8, five rows more than tokens

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 256,
    "eos_token_id": 258,
    "torch_dtype": "float32",
}


def tiny_model_directory(path: Path, seed: int = 0) -> Path:
    """Write the model as a Hugging Face folder; the same seed gives the same weights."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    save_file(_weights(seed), path / "model.safetensors", metadata={"format": "pt"})
    _tokenizer().save(str(path / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config), encoding="utf-8")
    return path


def endless_model_directory(path: Path, context: int) -> Path:
    """The same, of another context, and with no answer that ends by itself.

    The output layer is the embedding too: a row of zeros is never the likeliest token.
    """
    tiny_model_directory(path)
    config = {**CONFIG, "max_position_embeddings": context}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = _weights(0)
    weights["model.embed_tokens.weight"][256:] = 0
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


def _weights(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.2

    weights = {
        "model.embed_tokens.weight": random(VOCABULARY, HIDDEN) * 5,
        "model.norm.weight": 1 + random(HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= {
            f"{prefix}input_layernorm.weight": 1 + random(HIDDEN),
            f"{prefix}post_attention_layernorm.weight": 1 + random(HIDDEN),
            f"{prefix}self_attn.q_proj.weight": random(HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD_DIM),
            f"{prefix}mlp.gate_proj.weight": random(INTERMEDIATE, HIDDEN),
            f"{prefix}mlp.up_proj.weight": random(INTERMEDIATE, HIDDEN),
            f"{prefix}mlp.down_proj.weight": random(HIDDEN, INTERMEDIATE),
        }
    return weights


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in CONTROL_TOKENS])
    return tokenizer
