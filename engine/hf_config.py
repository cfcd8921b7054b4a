"""config.json of a Hugging Face folder → ModelConfig.

Knows the spellings of transformers 4 (`rope_theta`, `rope_scaling`) and 5 (`rope_parameters`).
Reads no weight, and does not import transformers, whose own reader costs two seconds of import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig, RopeScaling
from radixchat.engine.weight_shapes import check_layers


@dataclass(frozen=True, slots=True)
class _Family:
    """What an architecture means where config.json is silent (transformers' defaults)."""

    name: str
    bias: bool | None  # on q, k and v; None: `attention_bias` tells, for o as well
    qk_norm: bool = False
    tied: bool = False
    rope_theta: float = 10000.0
    head_dim: int | None = None
    rms_eps: float = 1e-6
    window: int | None = None  # sliding_window where the key is absent
    window_is_optional: bool = True  # use_sliding_window must ask for it
    unrotated_step: int | None = None


FAMILIES: Mapping[str, _Family] = {
    "LlamaForCausalLM": _Family("llama", bias=None),
    "MistralForCausalLM": _Family("mistral", bias=False, window=4096, window_is_optional=False),
    "Qwen2ForCausalLM": _Family("qwen2", bias=True, window=4096),
    "Qwen3ForCausalLM": _Family("qwen3", bias=None, qk_norm=True, head_dim=128, window=4096),
    "SmolLM3ForCausalLM": _Family(
        "smollm3", bias=None, tied=True, rope_theta=2e6, unrotated_step=4
    ),
}

# How transformers names causal language models, with few exceptions.
CAUSAL_ENDINGS = ("ForCausalLM", "LMHeadModel")


def read_hf_config(folder: Path) -> ModelConfig:
    """The decoder that a folder's config.json describes; of a family of FAMILIES.

    Raises ModelLoadError when it is missing, damaged, or describes something unsupported.
    """
    return _Config(folder, read_json(folder / "config.json")).model()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; ModelLoadError when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelLoadError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise ModelLoadError(f"{path} is damaged: {error}; fetch it again") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{path} is damaged: it holds no object; fetch it again")
    return value


def check_architectures(architectures: object, origin: object) -> str:
    """The architecture of a config's list: one of FAMILIES, or maybe one of transformers.

    By its name alone: what it is called tells a causal language model. Raises ModelLoadError.
    """
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    if isinstance(first, str) and (first in FAMILIES or first.endswith(CAUSAL_ENDINGS)):
        return first
    raise _not_supported(architectures, origin)


def is_of_transformers(folder: Path) -> bool:
    """Whether config.json names an architecture that at most transformers knows.

    Raises ModelLoadError as check_architectures does.
    """
    path = folder / "config.json"
    return check_architectures(read_json(path).get("architectures"), path) not in FAMILIES


def _not_supported(architectures: object, origin: object) -> ModelLoadError:
    return ModelLoadError(
        f"{origin}: architecture {architectures!r} is not supported; supported: "
        f"{', '.join(FAMILIES)}, and the other causal language models of transformers "
        "(…ForCausalLM)"
    )


class _Config:
    """One config.json with its family's defaults."""

    def __init__(self, folder: Path, values: Mapping[str, Any]) -> None:
        self._path = folder / "config.json"
        self._values = values
        architectures = values.get("architectures")
        architecture = check_architectures(architectures, self._path)
        if architecture not in FAMILIES:  # a reader of transformers' families is elsewhere
            raise _not_supported(architectures, self._path)
        self._family = FAMILIES[architecture]

    def model(self) -> ModelConfig:
        self._refuse_unsupported()
        family = self._family
        hidden, heads = self._integer("hidden_size"), self._integer("num_attention_heads")
        head_dim = self._integer("head_dim", family.head_dim or hidden // heads)
        layers = check_layers(self._integer("num_hidden_layers"), self._path)
        positions = self._integer("max_position_embeddings")
        theta, scaling, stretched = self._rope(positions)
        bias = bool(self._values.get("attention_bias", False))
        return ModelConfig(
            architecture=family.name,
            num_layers=layers,
            hidden_size=hidden,
            intermediate_size=self._integer("intermediate_size"),
            num_heads=heads,
            num_kv_heads=self._integer("num_key_value_heads", heads),
            head_dim=head_dim,
            vocab_size=self._integer("vocab_size"),
            max_position=max(positions, stretched),
            rms_eps=self._number(self._values, "rms_norm_eps", family.rms_eps),
            rope_theta=theta,
            rope_scaling=scaling,
            unrotated_layers=self._unrotated(layers),
            tied_embeddings=bool(self._values.get("tie_word_embeddings", family.tied)),
            attention_bias=bias if family.bias is None else family.bias,
            attention_out_bias=bias and family.bias is None,
            qk_norm=family.qk_norm,
        )

    def _refuse_unsupported(self) -> None:
        values, family = self._values, self._family
        if values.get("hidden_act", "silu") != "silu":
            raise self._unsupported("hidden_act", "only silu is")
        for key in ("mlp_bias", "quantization_config"):
            if values.get(key):
                raise self._unsupported(key, "only unquantised weights without it are")
        asked = not family.window_is_optional or bool(values.get("use_sliding_window", False))
        if asked and values.get("sliding_window", family.window) is not None:
            raise ModelLoadError(
                f"{self._path}: sliding window attention (sliding_window "
                f"{values.get('sliding_window', family.window)}) is not supported"
            )
        kinds = values.get("layer_types") or []
        if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
            raise self._unsupported("layer_types", "only full_attention is")

    def _rope(self, positions: int) -> tuple[float, RopeScaling | None, int]:
        """Base, scaling, and the positions that scaling is said to reach.

        transformers 5 keeps base and scaling in rope_parameters, 4 apart. With YaRN
        max_position_embeddings often stays the unstretched one (so Qwen2.5's instructions).
        """
        values = self._values
        rope = {**self._object("rope_scaling"), **self._object("rope_parameters")}
        partial = rope.get("partial_rotary_factor", values.get("partial_rotary_factor"))
        if partial not in (None, 1, 1.0):
            raise self._unsupported("partial_rotary_factor", "only 1.0 is")
        theta = self._number(
            rope, "rope_theta", self._number(values, "rope_theta", self._family.rope_theta)
        )
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind == "default":
            return theta, None, positions
        if kind not in ("linear", "llama3", "yarn"):
            raise ModelLoadError(
                f"{self._path}: rope scaling {kind!r} is not supported; supported: default, "
                "linear, llama3, yarn"
            )
        scaling = self._scaling(kind, rope, positions)
        told = rope.get("original_max_position_embeddings") is not None
        return theta, scaling, scaling.stretched_positions() if told else positions

    def _scaling(self, kind: str, rope: Mapping[str, Any], positions: int) -> RopeScaling:
        original = int(self._number(rope, "original_max_position_embeddings", positions))
        stretch = positions / original  # what transformers takes for YaRN's factor when it is null
        factor = self._number(rope, "factor", stretch if kind == "yarn" else None)
        low = high = None
        if kind == "llama3":
            low = self._number(rope, "low_freq_factor", None)
            high = self._number(rope, "high_freq_factor", None)
            if high <= low:
                raise ModelLoadError(
                    f"{self._path}: high_freq_factor is {high}; it must be more than "
                    f"low_freq_factor, {low}"
                )
        return RopeScaling(
            kind=kind,
            factor=factor,
            original_max_position=original,
            low_freq_factor=low or 1.0,
            high_freq_factor=high or 4.0,
            beta_fast=self._number(rope, "beta_fast", 32.0),
            beta_slow=self._number(rope, "beta_slow", 1.0),
            attention_factor=self._optional(rope, "attention_factor"),
            mscale=self._optional(rope, "mscale"),
            mscale_all_dim=self._optional(rope, "mscale_all_dim"),
            truncate=bool(rope.get("truncate", True)),
        )

    def _unrotated(self, layers: int) -> frozenset[int]:
        """Layers without rotary positions: a flag a layer (0: none), or every n-th."""
        if self._family.unrotated_step is None:
            return frozenset()
        flags = self._values.get("no_rope_layers")
        if flags is None:
            step = self._integer("no_rope_layer_interval", self._family.unrotated_step)
            return frozenset(range(step - 1, layers, step))
        if not isinstance(flags, list) or len(flags) < layers:
            raise ModelLoadError(
                f"{self._path}: no_rope_layers is {flags!r}; it must have one flag for each of "
                f"the {layers} layers"
            )
        return frozenset(index for index in range(layers) if not flags[index])

    def _integer(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise ModelLoadError(
                f"{self._path}: {key} is {value!r}; it must be a whole number of 1 or more"
            )
        return value

    def _number(self, values: Mapping[str, Any], key: str, default: float | None) -> float:
        value = values.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ModelLoadError(f"{self._path}: {key} is {value!r}; it must be a positive number")
        return float(value)

    def _optional(self, values: Mapping[str, Any], key: str) -> float | None:
        return self._number(values, key, None) if values.get(key) else None

    def _object(self, key: str) -> Mapping[str, Any]:
        """A flat object; absent and null are empty."""
        value = self._values.get(key) or {}
        if not isinstance(value, dict) or any(isinstance(part, dict) for part in value.values()):
            raise self._unsupported(key, "only one flat object for all layers is")
        return value

    def _unsupported(self, key: str, supported: str) -> ModelLoadError:
        return ModelLoadError(
            f"{self._path}: {key} is {self._values.get(key)!r}, which is not supported; {supported}"
        )
