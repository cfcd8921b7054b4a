"""The decoder: one implementation of the Llama family, shaped by the checkpoint's ModelConfig.

Llama, Mistral, Qwen2/2.5, Qwen3, SmolLM2/3. Knows tensors and pages; no requests, no text.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.rope import rotary_tables
from radixchat.kernels import ops


class Decoder:
    """Token ids to logits."""

    def __init__(
        self, config: ModelConfig, tensors: Mapping[str, Tensor], num_positions: int, exact: bool
    ) -> None:
        self.config = config
        self._embedding = tensors["embed_tokens.weight"]
        self._head = self._embedding if config.tied_embeddings else tensors["lm_head.weight"]
        self._norm = tensors["norm.weight"]
        shape = ops.LayerShape(
            config.num_heads, config.num_kv_heads, config.head_dim, config.rms_eps
        )
        layers = [layer_weights(config, tensors, i) for i in range(config.num_layers)]
        self._layers = ops.layer_stack(shape, layers, exact=exact)
        self.row_alignment = self._layers.row_alignment
        cos, sin = rotary_tables(config, num_positions)
        self._cos = cos.to(self._embedding.device, self._embedding.dtype)
        self._sin = sin.to(self._embedding.device, self._embedding.dtype)

    def __call__(self, batch: Batch, pages: ops.KVPages) -> Tensor:
        """Logits fp32 [len(batch.logit_rows), vocab]; K and V of every row are stored."""
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        hidden = ops.embed(batch.tokens, self._embedding)
        hidden = self._layers(hidden, cos, sin, pages, batch.step)[batch.logit_rows]
        if hidden.shape[0] == 0:
            return hidden.new_zeros(0, self.config.vocab_size)
        return ops.linear(ops.rms_norm(hidden, self._norm, self.config.rms_eps), self._head)


def layer_weights(
    config: ModelConfig, tensors: Mapping[str, Tensor], index: int
) -> ops.LayerWeights:
    """One layer's weights, with the matrices that read the same input joined."""

    def get(name: str) -> Tensor:
        return tensors[f"layers.{index}.{name}"]

    def joined(names: list[str], kind: str) -> Tensor:
        return torch.cat([get(f"{name}.{kind}") for name in names])

    attention = [f"self_attn.{name}_proj" for name in "qkv"]
    return ops.LayerWeights(
        input_norm=get("input_layernorm.weight"),
        qkv=joined(attention, "weight"),
        out=get("self_attn.o_proj.weight"),
        middle_norm=get("post_attention_layernorm.weight"),
        gate_up=joined(["mlp.gate_proj", "mlp.up_proj"], "weight"),
        down=get("mlp.down_proj.weight"),
        qkv_bias=joined(attention, "bias") if config.attention_bias else None,
        out_bias=get("self_attn.o_proj.bias") if config.attention_out_bias else None,
        q_norm=get("self_attn.q_norm.weight") if config.qk_norm else None,
        k_norm=get("self_attn.k_norm.weight") if config.qk_norm else None,
        rotates=config.layer_rotates(index),
    )
