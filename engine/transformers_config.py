"""config.json of a family that only transformers knows → ModelConfig, or why it cannot be.

A look at the file refuses what our attention has no part for, before transformers is imported,
which takes two seconds and decides the rest. Reads no weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.hf_config import check_architectures, read_json
from radixchat.engine.model_config import ModelConfig

# Keys that, unless they are empty, ask for what is not supported, and what they ask for.
REFUSED: Mapping[str, str] = {
    "quantization_config": "quantised weights (a GGUF may have them)",
    "attn_logit_softcapping": "capped attention scores",
    "alibi": "ALiBi positions",
    "is_encoder_decoder": "an encoder",
}
# Rotary frequencies of these kinds change, for all tokens, as soon as one is behind the original
# context; what is cached would be of another kind than what is computed.
LENGTH_DEPENDENT = ("dynamic", "longrope")


def read_transformers_config(folder: Path) -> ModelConfig:
    """The model that a folder's config.json describes, as transformers reads it.

    Raises ModelLoadError when it is missing, damaged, or describes something unsupported.
    """
    path = folder / "config.json"
    values = read_json(path)
    architecture = check_architectures(values.get("architectures"), path)
    _refuse_unsupported(path, values)
    _check_known(path, values, architecture)
    from transformers import AutoConfig  # two seconds of import

    try:
        described = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # each family checks its values in its own way
        told = " ".join(str(error).split())
        raise ModelLoadError(f"{path}: transformers cannot read it: {told}") from error
    return _model_config(path, architecture, described.get_text_config())


def _refuse_unsupported(path: Path, values: Mapping[str, Any]) -> None:
    for key, meaning in REFUSED.items():
        if values.get(key):
            raise ModelLoadError(
                f"{path}: {key} is {values[key]!r}: {meaning}, which is not supported"
            )
    window, context = values.get("sliding_window"), values.get("max_position_embeddings")
    asked = values.get("use_sliding_window") is not False
    limits = not isinstance(window, int) or not isinstance(context, int) or window < context
    if window is not None and asked and limits:
        raise ModelLoadError(
            f"{path}: sliding window attention (sliding_window {window!r}) is not supported"
        )


def _check_known(path: Path, values: Mapping[str, Any], architecture: str) -> None:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    known: set[str] = set()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        known.update([names] if isinstance(names, str) else names)
    if architecture in known:
        return
    remedy = "a newer transformers may"
    if values.get("auto_map"):
        remedy = "its code lies beside its weights, and is not run"
    raise ModelLoadError(
        f"{path}: architecture {architecture!r} is not supported: transformers "
        f"{transformers.__version__} has no such model; {remedy}"
    )


def _model_config(path: Path, architecture: str, described: Any) -> ModelConfig:
    """described: a PreTrainedConfig, whose attributes have the same names for all families."""

    def integer(name: str) -> int:
        value = getattr(described, name, None)
        if not isinstance(value, int) or value < 1:
            raise ModelLoadError(
                f"{path}: {name} is {value!r}; it must be a whole number of 1 or more"
            )
        return value

    heads, hidden = integer("num_attention_heads"), integer("hidden_size")
    kv_heads = getattr(described, "num_key_value_heads", None)
    if kv_heads is None:
        kv_heads = 1 if getattr(described, "multi_query", False) else heads
    positions = integer("max_position_embeddings")
    return ModelConfig(
        architecture=architecture,
        num_layers=integer("num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=getattr(described, "intermediate_size", None) or 4 * hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=getattr(described, "head_dim", None) or hidden // heads,
        vocab_size=integer("vocab_size"),
        max_position=min([positions, *_fixed_lengths(described)]),
        rms_eps=0.0,
        rope_theta=0.0,
        by_transformers=True,
    )


def _fixed_lengths(described: Any) -> Iterator[int]:
    """Up to where rotary frequencies stay as they are, of kinds whose do not for ever."""
    rope = getattr(described, "rope_parameters", None) or {}
    # One for all layers, or one for each kind of layer.
    for each in [rope, *(value for value in rope.values() if isinstance(value, Mapping))]:
        length = each.get("original_max_position_embeddings")
        if each.get("rope_type") in LENGTH_DEPENDENT and isinstance(length, int):
            yield length
