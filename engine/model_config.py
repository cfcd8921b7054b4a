"""A decoder's dimensions, independent of the checkpoint format they were read from.

Knows no tensor, no file and no token. `engine/gguf_model.py` reads it from GGUF fields,
`engine/hf_config.py` from a Hugging Face `config.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the trained context.

    kind: "linear", "llama3" or "yarn". The other fields are the checkpoint's own, with the
    meaning they have in its `rope_scaling`/`rope_parameters`.
    """

    kind: str
    factor: float
    original_max_position: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def stretched_positions(self) -> int:
        """Positions that YaRN makes of the original ones; the original number for other kinds."""
        factor = self.factor if self.kind == "yarn" else 1.0
        return int(self.original_max_position * factor)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of one decoder, ours or one of transformers.

    architecture: "llama", "mistral", "qwen2", "qwen3" or "smollm3"; where by_transformers is set,
    a class of transformers, which computes all but attention, and rms_eps, rope and everything
    behind it are that class's own. rope_freq_factors, when a checkpoint ships them (GGUF
    `rope_freqs.weight`), divide the base frequencies and replace `rope_scaling`.
    """

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int
    rms_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    rope_freq_factors: tuple[float, ...] | None = None
    unrotated_layers: frozenset[int] = frozenset()  # layers without rotary positions (SmolLM3)
    tied_embeddings: bool = False
    attention_bias: bool = False  # on q, k and v
    attention_out_bias: bool = False  # on o (Llama's attention_bias sets both)
    qk_norm: bool = False
    by_transformers: bool = False

    def layer_rotates(self, layer: int) -> bool:
        """Whether the layer applies rotary positions."""
        return layer not in self.unrotated_layers

    @property
    def attention_tokens(self) -> int:
        """The position at which a token's attention costs as much as all else of its layers.

        Per token and layer: 2 operations a weight, 4 a query head's dimension and position.
        """
        return max(1, self._layer_weights // (2 * self.num_heads * self.head_dim))

    @property
    def operations_per_token(self) -> int:
        """Of all layers, at the beginning of a context: 2 a weight."""
        return 2 * self._layer_weights * self.num_layers

    @property
    def _layer_weights(self) -> int:
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return self.hidden_size * (2 * queries + 2 * keys + 3 * self.intermediate_size)

    def kv_bytes_per_token(self, element_bytes: int, scale_bytes: int = 0) -> int:
        """Bytes of K and V that one token occupies in all layers; scale_bytes: for each head."""
        per_head = self.head_dim * element_bytes + scale_bytes
        return 2 * self.num_layers * self.num_kv_heads * per_head
