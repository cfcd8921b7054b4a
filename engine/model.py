"""The decoder: one implementation of the Llama family, shaped by the checkpoint's ModelConfig.

Llama, Mistral, Qwen2/2.5, Qwen3, SmolLM2/3. Knows tensors and pages; no requests, no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.rope import rotary_tables
from radixchat.kernels import ops


class Decoder:
    """Token ids to logits."""

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, ops.Matrix],
        num_positions: int,
        *,
        exact: bool,
        threads: int | None = None,
        compiled: bool = True,
        device: str = "cpu",
    ) -> None:
        """exact, threads, compiled, device: as in `ops.layer_stack`."""
        self.config = config
        self._exact, self._device = exact, device
        self._norm = _vector(tensors, "norm.weight")
        layers = [layer_weights(config, tensors, i) for i in range(config.num_layers)]

        def stack(some: Sequence[ops.LayerWeights]) -> ops.LayerStack:
            return ops.layer_stack(
                layer_shape(config),
                some,
                exact=exact,
                threads=threads,
                compiled=compiled,
                device=device,
            )

        self.layers, self._first_layer = stack(layers), stack(layers[:1])
        self.row_alignment = self.layers.row_alignment
        self._embedding = tensors["embed_tokens.weight"]
        head = self._embedding if config.tied_embeddings else tensors["lm_head.weight"]
        if exact and device == "cpu" and self.row_alignment == 1 and isinstance(head, Tensor):
            # torch's product of some widths has other bits with four of its threads or more, and
            # their number is the whole process's.
            head = ops.pack_fp32(head)
            self._embedding = head if config.tied_embeddings else self._embedding
        self._head = head
        cos, sin = rotary_tables(config, num_positions)
        self._cos = cos.to(self._norm.device, self._norm.dtype)
        self._sin = sin.to(self._norm.device, self._norm.dtype)

    def __call__(
        self, batch: Batch, pages: ops.KVPages, layers: ops.LayerStack | None = None
    ) -> Tensor:
        """Logits fp32 [len(batch.logit_rows), vocab]; K and V of every row are stored.

        layers: `self.layers` if None, else the same in another form.
        """
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        hidden = ops.embed(batch.tokens, self._embedding)
        stack = self.layers if layers is None else layers
        hidden = stack(hidden, cos, sin, pages, batch.step)[batch.logit_rows]
        if hidden.shape[0] == 0:
            return hidden.new_zeros(0, self.config.vocab_size)
        return self._logits(hidden)

    def _logits(self, hidden: Tensor) -> Tensor:
        return ops.logits(
            hidden,
            self._norm,
            self.config.rms_eps,
            self._head,
            exact=self._exact,
            device=self._device,
        )

    @torch.inference_mode()
    def inexactness(self, kv_dtype: torch.dtype, page_size: int) -> str | None:
        """None if a row has the same bits however it is computed here, else what differed."""
        return ops.exact_here(
            self._first_layer,
            layer_shape(self.config),
            self.config.hidden_size,
            kv_dtype,
            page_size,
            self._logits,
            str(self._norm.device),
            self._norm.dtype,
        )


def layer_shape(config: ModelConfig) -> ops.LayerShape:
    """What the kernels need to know of all layers."""
    return ops.LayerShape(config.num_heads, config.num_kv_heads, config.head_dim, config.rms_eps)


def layer_weights(
    config: ModelConfig, tensors: Mapping[str, ops.Matrix], index: int
) -> ops.LayerWeights:
    """One layer's weights, with the matrices that read the same input joined."""
    prefix = f"layers.{index}."
    attention = [f"{prefix}self_attn.{name}_proj" for name in "qkv"]
    bias = [f"{name}.bias" for name in attention]

    def vector(name: str) -> Tensor:
        return _vector(tensors, prefix + name)

    return ops.LayerWeights(
        input_norm=vector("input_layernorm.weight"),
        qkv=ops.joined([tensors[f"{name}.weight"] for name in attention]),
        out=tensors[f"{prefix}self_attn.o_proj.weight"],
        middle_norm=vector("post_attention_layernorm.weight"),
        gate_up=ops.joined([tensors[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")]),
        down=tensors[f"{prefix}mlp.down_proj.weight"],
        qkv_bias=torch.cat([_vector(tensors, b) for b in bias]) if config.attention_bias else None,
        out_bias=vector("self_attn.o_proj.bias") if config.attention_out_bias else None,
        q_norm=vector("self_attn.q_norm.weight") if config.qk_norm else None,
        k_norm=vector("self_attn.k_norm.weight") if config.qk_norm else None,
        rotates=config.layer_rotates(index),
    )


def _vector(tensors: Mapping[str, ops.Matrix], name: str) -> Tensor:
    tensor = tensors[name]
    assert isinstance(tensor, Tensor), name
    return tensor
