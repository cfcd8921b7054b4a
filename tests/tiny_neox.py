"""A tiny model of a family that only transformers knows, GPT-NeoX, beside the tiny model's text.

Heads of 16, as the compiled attention wants them; random weights. Its text is noise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from radixchat.tests.tiny_model import VOCABULARY, tiny_model_directory

CONTEXT = 256
CONFIG: dict[str, Any] = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.3,
    "bos_token_id": 256,
    "eos_token_id": 258,
}


def tiny_neox_directory(path: Path, seed: int = 0, **changes: Any) -> Path:
    """Write the model as a Hugging Face folder; the same seed gives the same weights."""
    # transformers takes seconds to import, and only these tests need it.
    import torch
    from safetensors.torch import save_file
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    tiny_model_directory(path)
    values = {**CONFIG, **changes}
    torch.manual_seed(seed)
    module = GPTNeoXForCausalLM(GPTNeoXConfig(**values))
    save_file(module.state_dict(), path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return path
