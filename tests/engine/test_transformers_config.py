"""What config.json of a family that only transformers knows tells, and what it is refused for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.hf_config import is_of_transformers
from radixchat.engine.transformers_config import read_transformers_config
from radixchat.tests.tiny_neox import CONFIG, CONTEXT

PHI3: dict[str, Any] = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "pad_token_id": 0,
    "max_position_embeddings": 256,
    "original_max_position_embeddings": 64,
}
LONG_ROPE = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


def _write(folder: Path, values: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def test_a_family_s_own_names_are_understood(tmp_path: Path) -> None:
    """GPT-2 calls everything otherwise, and says nothing of what it takes for granted."""
    assert is_of_transformers(_write(tmp_path, CONFIG))
    config = read_transformers_config(tmp_path)
    assert (config.architecture, config.by_transformers) == ("GPTNeoXForCausalLM", True)
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (4, 4, 16)
    assert config.max_position == CONTEXT
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 2, "n_positions": 64, "vocab_size": 96}
    _write(tmp_path, {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", **sizes})
    config = read_transformers_config(tmp_path)
    assert (config.num_layers, config.head_dim, config.intermediate_size) == (3, 16, 128)
    assert (config.max_position, config.vocab_size) == (64, 96)


def test_the_context_ends_where_rotary_frequencies_would_change(tmp_path: Path) -> None:
    """Behind it the cached keys would be of other frequencies than the new ones."""
    assert read_transformers_config(_write(tmp_path, PHI3)).max_position == 256
    _write(tmp_path, {**PHI3, "rope_scaling": LONG_ROPE})
    assert read_transformers_config(tmp_path).max_position == 64


def test_a_window_as_long_as_the_context_is_none(tmp_path: Path) -> None:
    """Nor is one that is switched off; a shorter one is refused."""
    for harmless in ({"sliding_window": 256}, {"sliding_window": 8, "use_sliding_window": False}):
        read_transformers_config(_write(tmp_path, PHI3 | harmless))
    with pytest.raises(ModelLoadError, match=r"sliding window attention \(sliding_window 255\)"):
        read_transformers_config(_write(tmp_path, PHI3 | {"sliding_window": 255}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised weights .a GGUF may"),
        ({"attn_logit_softcapping": 50.0}, "capped attention scores, which is not supported"),
        ({"alibi": True}, "ALiBi positions"),
        ({"is_encoder_decoder": True}, "an encoder"),
        ({"sliding_window": "long"}, "sliding_window 'long'"),
        ({"architectures": ["XForCausalLM"]}, "'XForCausalLM' is not .* a newer transformers may"),
        (
            {"architectures": ["XForCausalLM"], "auto_map": {"A": "b"}},
            "its weights, and is not run",
        ),
        (
            {"architectures": ["T5Model"]},
            "supported: LlamaForCausalLM, .*other causal lang",
        ),
        ({"architectures": []}, r"architecture \[\] is not supported"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0; it must be a whole"),
        ({"max_position_embeddings": None}, "cannot read it: .*max_position_embeddings"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be a whole number"),
        ({"model_type": "no such"}, "transformers cannot read it"),
    ],
)
def test_what_is_unsupported_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """The file, the key, its value, and what would do."""
    _write(tmp_path, CONFIG | changes)
    with pytest.raises(ModelLoadError, match=f"{tmp_path}/config.json: .*{message}"):
        read_transformers_config(tmp_path)


def test_what_the_file_tells_needs_no_transformers(tmp_path: Path) -> None:
    """Whose import takes seconds: neither for our own families, nor for a plain refusal."""
    _write(tmp_path, CONFIG | {"sliding_window": 8})
    script = (
        "import sys, pathlib, radixchat.engine.weights as w\n"
        "try: w.load_checkpoint(pathlib.Path(sys.argv[1]))\n"
        "except w.ModelLoadError as error: print(error)\n"
        "assert 'transformers' not in sys.modules\n"
    )
    (tmp_path / "model.safetensors").write_bytes(bytes(8))
    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "model.safetensors is damaged" in told.stdout
