"""The decoder: one implementation of the Llama family, shaped by the checkpoint's ModelConfig.

Llama, Mistral, Qwen2/2.5, Qwen3, SmolLM2/3. Knows tensors and pages; no requests, no text.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from radixchat.engine.batch import Batch
from radixchat.engine.kv_cache import KVCache
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.rope import rotary_tables
from radixchat.kernels import ops


class Attention:
    """Grouped-query attention of one layer over the paged cache."""

    def __init__(self, config: ModelConfig, tensors: Mapping[str, Tensor], layer: int) -> None:
        prefix = f"layers.{layer}.self_attn."
        self._config = config
        self._weight = {name: tensors[f"{prefix}{name}_proj.weight"] for name in "qkvo"}
        self._bias = {name: tensors.get(f"{prefix}{name}_proj.bias") for name in "qkvo"}
        self._q_norm = tensors.get(prefix + "q_norm.weight")
        self._k_norm = tensors.get(prefix + "k_norm.weight")
        self._rotates = config.layer_rotates(layer)

    def __call__(
        self, x: Tensor, cos: Tensor, sin: Tensor, batch: Batch, cache: tuple[Tensor, Tensor]
    ) -> Tensor:
        """x [rows, hidden] → [rows, hidden]; K and V are in the pool before it reads them."""
        config, rows = self._config, x.shape[0]
        query = self._project("q", x).view(rows, config.num_heads, config.head_dim)
        key = self._project("k", x).view(rows, config.num_kv_heads, config.head_dim)
        value = self._project("v", x).view(rows, config.num_kv_heads, config.head_dim)
        if self._q_norm is not None and self._k_norm is not None:
            query = ops.rms_norm(query, self._q_norm, config.rms_eps)
            key = ops.rms_norm(key, self._k_norm, config.rms_eps)
        if self._rotates:
            query, key = ops.rotate(query, cos, sin), ops.rotate(key, cos, sin)
        k_cache, v_cache = cache
        real = batch.num_rows
        ops.store_kv(key[:real], value[:real], k_cache, v_cache, batch.slots)
        attended = ops.paged_attention(
            query, k_cache, v_cache, batch.query_starts, batch.kv_lengths, batch.page_tables
        )
        return self._project("o", attended.flatten(1))

    def _project(self, name: str, x: Tensor) -> Tensor:
        return ops.linear(x, self._weight[name], self._bias[name])


class FeedForward:
    """The gated feed-forward of one layer."""

    def __init__(self, tensors: Mapping[str, Tensor], layer: int) -> None:
        prefix = f"layers.{layer}.mlp."
        self._gate = tensors[prefix + "gate_proj.weight"]
        self._up = tensors[prefix + "up_proj.weight"]
        self._down = tensors[prefix + "down_proj.weight"]

    def __call__(self, x: Tensor) -> Tensor:
        """x [rows, hidden] → [rows, hidden]."""
        gated = ops.swiglu(ops.linear(x, self._gate), ops.linear(x, self._up))
        return ops.linear(gated, self._down)


class Decoder:
    """Token ids to logits. The weights are those of `Checkpoint.tensors`, not copies."""

    def __init__(
        self, config: ModelConfig, tensors: Mapping[str, Tensor], num_positions: int
    ) -> None:
        self.config = config
        self._embedding = tensors["embed_tokens.weight"]
        self._head = self._embedding if config.tied_embeddings else tensors["lm_head.weight"]
        self._norm = tensors["norm.weight"]
        self._input_norms = [
            tensors[f"layers.{i}.input_layernorm.weight"] for i in range(config.num_layers)
        ]
        self._middle_norms = [
            tensors[f"layers.{i}.post_attention_layernorm.weight"] for i in range(config.num_layers)
        ]
        self._attention = [Attention(config, tensors, i) for i in range(config.num_layers)]
        self._feed_forward = [FeedForward(tensors, i) for i in range(config.num_layers)]
        cos, sin = rotary_tables(config, num_positions)
        self._cos = cos.to(self._embedding.device, self._embedding.dtype)
        self._sin = sin.to(self._embedding.device, self._embedding.dtype)

    def __call__(self, batch: Batch, cache: KVCache) -> Tensor:
        """Logits fp32 [len(batch.logit_rows), vocab]; K and V of every row are stored."""
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        hidden = functional.embedding(batch.tokens, self._embedding)
        eps = self.config.rms_eps
        for i in range(self.config.num_layers):
            normed = ops.rms_norm(hidden, self._input_norms[i], eps)
            hidden = hidden + self._attention[i](normed, cos, sin, batch, cache.layer(i))
            hidden = hidden + self._feed_forward[i](
                ops.rms_norm(hidden, self._middle_norms[i], eps)
            )
        return self._logits(hidden[batch.logit_rows])

    def _logits(self, hidden: Tensor) -> Tensor:
        rows = hidden.shape[0]
        if rows == 0:
            return hidden.new_zeros(0, self.config.vocab_size)
        padding = -rows % ops.ROW_ALIGNMENT
        hidden = functional.pad(hidden, (0, 0, 0, padding))
        normed = ops.rms_norm(hidden, self._norm, self.config.rms_eps)
        return ops.linear(normed, self._head)[:rows].float()
