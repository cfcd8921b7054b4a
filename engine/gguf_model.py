"""What a GGUF file's fields and tensor names mean: its ModelConfig, and canonical weight names.

Knows the conventions of llama.cpp's converter for the architectures of SUPPORTED. Reads no block
and unpacks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.gguf import GGUFFile, GGUFTensor
from radixchat.engine.model_config import ModelConfig, RopeScaling
from radixchat.engine.weight_shapes import check_layers, check_weights

# Mistral checkpoints are converted as "llama".
SUPPORTED = ("llama", "qwen2", "qwen3", "smollm3")
# The converter permutes q and k of these for interleaved rotary positions.
PERMUTED = ("llama", "smollm3")
# llama.cpp fixes this step for the architecture; the file does not carry it.
SMOLLM3_UNROTATED_STEP = 4
ROPE_FREQS = "rope_freqs.weight"

_TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class GGUFModel:
    """A supported model: its shape, and each weight's place by canonical name."""

    file: GGUFFile
    config: ModelConfig
    weights: Mapping[str, GGUFTensor]

    def permuted_heads(self, name: str) -> int | None:
        """How many heads a weight's rows are permuted in, None for rows as they should be."""
        if self.file.fields["general.architecture"] not in PERMUTED:
            return None
        if ".q_proj." in name:
            return self.config.num_heads
        return self.config.num_kv_heads if ".k_proj." in name else None


def interpret_gguf(file: GGUFFile, rope_freq_factors: tuple[float, ...] | None) -> GGUFModel:
    """The model a file holds; raises ModelLoadError for one that is incomplete or unsupported.

    rope_freq_factors: the contents of the file's ROPE_FREQS tensor, if it has one.
    """
    fields = _Fields(file)
    config = _config(fields, file, rope_freq_factors)
    weights = {
        _canonical(name): tensor for name, tensor in file.tensors.items() if name != ROPE_FREQS
    }
    check_weights(config, {name: tensor.shape for name, tensor in weights.items()}, file.path)
    if rope_freq_factors is not None and len(rope_freq_factors) != config.head_dim // 2:
        raise ModelLoadError(
            f"{file.path}: {ROPE_FREQS} has {len(rope_freq_factors)} factors, "
            f"heads of {config.head_dim} need {config.head_dim // 2}"
        )
    return GGUFModel(file, config, weights)


class _Fields:
    """The metadata of one architecture, read with its prefix and checked for type."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        architecture = file.fields.get("general.architecture")
        if architecture not in SUPPORTED:
            raise ModelLoadError(
                f"{file.path}: architecture {architecture!r} is not supported; supported: "
                f"{', '.join(SUPPORTED)} (Mistral and SmolLM2 files say llama)"
            )
        self.architecture = str(architecture)

    def get(self, key: str, default: Any = None) -> Any:
        return self._file.fields.get(f"{self.architecture}.{key}", default)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[0]  # one number a layer, all the same
        if not isinstance(value, int) or value < 1:
            raise self._wrong(key, value, "a whole number of 1 or more, the same in all layers")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self._wrong(key, value, "a positive number")
        return float(value)

    def optional(self, key: str) -> float | None:
        """A number; None when it is absent or 0."""
        return self.number(key) if self.get(key) else None

    def refuse(self, key: str, harmless: tuple[Any, ...], what: str) -> None:
        """Raise unless the field is absent or says that a feature is off."""
        value = self.get(key)
        if value is not None and value not in harmless:
            raise ModelLoadError(
                f"{self._file.path}: {self.architecture}.{key} is {value!r}: {what} not supported"
            )

    def _wrong(self, key: str, value: object, wanted: str) -> ModelLoadError:
        return ModelLoadError(
            f"{self._file.path}: {self.architecture}.{key} is {value!r}; it must be {wanted}"
        )


def _config(
    fields: _Fields, file: GGUFFile, rope_freq_factors: tuple[float, ...] | None
) -> ModelConfig:
    _refuse_unsupported(fields, file)
    hidden, heads = fields.integer("embedding_length"), fields.integer("attention.head_count")
    head_dim = fields.integer("attention.key_length", hidden // heads)
    layers = check_layers(fields.integer("block_count"), file.path)
    step = SMOLLM3_UNROTATED_STEP if fields.architecture == "smollm3" else layers + 1
    for key in ("attention.value_length", "rope.dimension_count"):
        if fields.integer(key, head_dim) != head_dim:
            raise ModelLoadError(
                f"{file.path}: {fields.architecture}.{key} is {fields.get(key)}, heads have "
                f"{head_dim}; a difference is not supported"
            )
    scaling = _rope_scaling(fields)
    return ModelConfig(
        architecture=fields.architecture,
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        num_heads=heads,
        num_kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=_vocabulary(file),
        max_position=_positions(fields, scaling),
        rms_eps=fields.number("attention.layer_norm_rms_epsilon"),
        rope_theta=fields.number("rope.freq_base", 10000.0),
        rope_scaling=scaling,
        rope_freq_factors=rope_freq_factors,
        unrotated_layers=frozenset(range(step - 1, layers, step)),
        tied_embeddings="output.weight" not in file.tensors,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        attention_out_bias="blk.0.attn_output.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
    )


def _refuse_unsupported(fields: _Fields, file: GGUFFile) -> None:
    parts = file.fields.get("split.count", 1)
    if parts not in (0, 1):
        raise ModelLoadError(
            f"{file.path} is one of {parts} parts; merge them with llama-gguf-split --merge"
        )
    fields.refuse("expert_count", (0,), "a mixture of experts is")
    fields.refuse("attention.sliding_window", (0,), "sliding window attention is")
    fields.refuse("attention.scale", (0.0,), "an attention scale of its own is")
    fields.refuse("logit_scale", (0.0, 1.0), "a logit scale is")
    fields.refuse("attention.causal", (True,), "attention in both directions is")


def _rope_scaling(fields: _Fields) -> RopeScaling | None:
    kind = fields.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    fields.refuse("rope.scaling.type", ("linear", "yarn"), "a rope scaling but linear and yarn is")
    factor = fields.optional("rope.scaling.factor") or 1.0
    original = fields.integer(
        "rope.scaling.original_context_length", fields.integer("context_length")
    )
    if kind == "linear":
        return RopeScaling("linear", factor, original)
    fields.refuse("rope.scaling.attn_factor", (1.0,), "a rotary attention factor is")
    fields.refuse("rope.scaling.yarn_ext_factor", (-1.0, 1.0), "this extrapolation factor is")
    # llama.cpp takes mscale as 1 when the multiplier, its mscale_all_dim, is there.
    multiplier = fields.optional("rope.scaling.yarn_log_multiplier")
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_position=original,
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=fields.optional("rope.scaling.yarn_attn_factor"),
        mscale=1.0 if multiplier else None,
        mscale_all_dim=multiplier,
    )


def _positions(fields: _Fields, scaling: RopeScaling | None) -> int:
    """The context; YaRN's own when its fields tell it and context_length is still the old one."""
    positions = fields.integer("context_length")
    if scaling is None or fields.get("rope.scaling.original_context_length") is None:
        return positions
    return max(positions, scaling.stretched_positions())


def _vocabulary(file: GGUFFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelLoadError(f"{file.path} lacks token_embd.weight; the checkpoint is incomplete")
    return embedding.shape[0]


def _canonical(name: str) -> str:
    """The canonical name of a GGUF tensor; one that has none keeps its own."""
    stem, _, kind = name.rpartition(".")
    match stem.split(".", 2):
        case ["blk", layer, part] if part in _LAYER:
            return f"layers.{layer}.{_LAYER[part]}.{kind}"
        case [top] if top in _TOP:
            return f"{_TOP[top]}.{kind}"
        case _:
            return name
