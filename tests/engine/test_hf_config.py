"""config.json in both spellings, its silences, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.hf_config import read_hf_config
from radixchat.engine.model_config import ModelConfig, RopeScaling

BASE = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "vocab_size": 96,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor")


def _read(folder: Path, **values: Any) -> ModelConfig:
    (folder / "config.json").write_text(json.dumps({**BASE, **values}))
    return read_hf_config(folder)


def test_silences_mean_what_they_mean_to_transformers(tmp_path: Path) -> None:
    """No head_dim, no key heads, no theta, no tie: the family's defaults."""
    assert _read(tmp_path) == ModelConfig(
        architecture="llama",
        num_layers=2,
        hidden_size=64,
        intermediate_size=128,
        num_heads=4,
        num_kv_heads=4,
        head_dim=16,
        vocab_size=96,
        max_position=256,
        rms_eps=1e-5,
        rope_theta=10000.0,
    )
    qwen = _read(tmp_path, architectures=["Qwen3ForCausalLM"])
    assert (qwen.head_dim, qwen.qk_norm, qwen.attention_bias) == (128, True, False)
    qwen = _read(tmp_path, architectures=["Qwen2ForCausalLM"])
    assert (qwen.attention_bias, qwen.attention_out_bias, qwen.qk_norm) == (True, False, False)
    llama = _read(tmp_path, attention_bias=True)
    assert (llama.attention_bias, llama.attention_out_bias) == (True, True)


@pytest.mark.parametrize("spelling", ["old", "new"])
def test_rope_settings_are_read_in_both_spellings(tmp_path: Path, spelling: str) -> None:
    """transformers 4: rope_theta beside rope_scaling; 5: both in rope_parameters."""

    def read(kind: str, **scaling: Any) -> ModelConfig:
        if spelling == "old":
            name = "type" if kind == "linear" else "rope_type"
            return _read(tmp_path, rope_theta=5e5, rope_scaling={name: kind, **scaling})
        rope = {"rope_theta": 5e5, "rope_type": kind, **scaling}
        return _read(tmp_path, rope_parameters=rope)

    assert read("default").rope_scaling is None
    assert read("default").rope_theta == 5e5
    assert read("linear", factor=2).rope_scaling == RopeScaling("linear", 2.0, 256)
    llama = {"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
    assert read("llama3", original_max_position_embeddings=128, **llama).rope_scaling == (
        RopeScaling("llama3", 8.0, 128, low_freq_factor=1.0, high_freq_factor=4.0)
    )
    yarn = read("yarn", factor=4, original_max_position_embeddings=128, truncate=False)
    assert yarn.rope_scaling == RopeScaling("yarn", 4.0, 128, truncate=False)
    assert yarn.max_position == 512  # 4 * 128, though config.json still says 256
    yarn = read("yarn", original_max_position_embeddings=64, attention_factor=1.2)
    assert yarn.rope_scaling == RopeScaling("yarn", 4.0, 64, attention_factor=1.2)
    assert (yarn.max_position, read("yarn", factor=4).max_position) == (256, 256)


def test_smollm3_says_which_layers_do_not_rotate(tmp_path: Path) -> None:
    """Every fourth by default; an interval, or a flag for each layer, otherwise."""
    smollm = {"architectures": ["SmolLM3ForCausalLM"], "num_hidden_layers": 8}
    config = _read(tmp_path, **smollm)
    assert config.unrotated_layers == {3, 7}
    assert (config.tied_embeddings, config.rope_theta) == (True, 2e6)
    assert _read(tmp_path, no_rope_layer_interval=3, **smollm).unrotated_layers == {2, 5}
    flags = [1, 0, 1, 1, 1, 1, 1, 0]
    assert _read(tmp_path, no_rope_layers=flags, **smollm).unrotated_layers == {1, 7}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architectures": ["Gemma2ForCausalLM"]}, r"\['Gemma2ForCausalLM'\] is not supported"),
        ({"architectures": None}, "None is not supported; supported: LlamaForCausalLM, "),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config is"),
        ({"hidden_size": None}, "hidden_size is None"),
        ({"num_hidden_layers": 10**9}, "claims 1000000000 layers"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is 'small'"),
        ({"rope_theta": 0}, "rope_theta is 0"),
        ({"partial_rotary_factor": 0.5}, "only 1.0 is"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, "'dynamic' is not supported"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is None"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2}}, "low_freq_factor is None"),
        (
            {"rope_scaling": {"rope_type": "llama3"} | dict.fromkeys(LLAMA3, 2)},
            "high_freq_factor is 2.0; it must be more than low_freq_factor, 2.0",
        ),
        ({"rope_scaling": [1]}, "only one flat object"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "only one flat object"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is"),
        (
            {"architectures": ["MistralForCausalLM"], "sliding_window": 4096},
            r"\(sliding_window 4096\) is not supported",
        ),
        ({"architectures": ["MistralForCausalLM"]}, r"\(sliding_window 4096\) is not supported"),
        (
            {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": True},
            r"\(sliding_window 4096\) is not supported",
        ),
        ({"architectures": ["SmolLM3ForCausalLM"], "no_rope_layers": [1]}, "the 2 layers"),
    ],
)
def test_what_is_unsupported_is_named(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    """The key, its value, and what would do."""
    with pytest.raises(ModelLoadError, match=message):
        _read(tmp_path, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"architectures": ["MistralForCausalLM"], "sliding_window": None},
        {
            "architectures": ["Qwen2ForCausalLM"],
            "use_sliding_window": False,
            "sliding_window": 131072,
        },
    ],
)
def test_a_sliding_window_that_is_off_is_no_obstacle(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    """Mistral v0.2 and later, and every released Qwen."""
    assert _read(tmp_path, **values).num_layers == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "is damaged"),
        (b"\xff\xfe{", "is damaged"),
        (b"[1, 2]", "holds no object"),
        (b'{"architectures": [', "is damaged"),
    ],
)
def test_a_missing_or_damaged_file_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    """The error has the file's name and what is wrong with it."""
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelLoadError, match=rf"config\.json.*{message}"):
        read_hf_config(tmp_path)


@pytest.mark.parametrize("architectures", [[["x"]], [{}], [None], [], "LlamaForCausalLM", None])
def test_an_odd_architecture_is_refused(tmp_path: Path, architectures: object) -> None:
    """Whatever stands there, the error shows it."""
    with pytest.raises(ModelLoadError, match=re.escape(repr(architectures))):
        _read(tmp_path, architectures=architectures)
