"""Families that only transformers knows, on our pages: their own logits, cut anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.transformers_model import TransformersDecoder, load_transformers
from radixchat.kernels import ops
from radixchat.tests.tiny_neox import tiny_neox_directory

VOCABULARY = 96
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SMALL, intermediate_size=64),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128
    ),
    "opt": lambda: transformers.OPTConfig(**SMALL, ffn_dim=64, word_embed_proj_dim=32),
    "gemma": lambda: transformers.GemmaConfig(
        **SMALL, intermediate_size=64, num_key_value_heads=1, head_dim=16
    ),
    "gpt_bigcode": lambda: transformers.GPTBigCodeConfig(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128
    ),
    "mixtral": lambda: transformers.MixtralConfig(
        **SMALL, intermediate_size=64, num_key_value_heads=2, num_local_experts=4
    ),
    "phi": lambda: transformers.PhiConfig(**SMALL, intermediate_size=64),
    "stablelm": lambda: transformers.StableLmConfig(
        **SMALL, intermediate_size=64, num_key_value_heads=2
    ),
    "olmo2": lambda: transformers.Olmo2Config(**SMALL, intermediate_size=64),
}


def saved(folder: Path, config: Any) -> Path:
    """A folder with random weights of that config."""
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def computed(decoder: TransformersDecoder, tokens: Tensor, cuts: list[int]) -> Tensor:
    """Logits of all tokens, computed in chunks between the cuts over scattered pages."""
    config = decoder.config
    shape = (config.num_layers, 20, config.num_kv_heads, 4, config.head_dim)
    pages = ops.empty_pages(*shape, torch.float32, "cpu")
    table = torch.randperm(20).tolist()
    parts = []
    bounds = [0, *cuts, len(tokens)]
    for start, end in itertools.pairwise(bounds):
        rows = end - start
        parts.append(
            decoder(
                Batch(
                    tokens[start:end],
                    torch.arange(start, end),
                    ops.ragged([rows], [end], [table], 4, rows, "cpu"),
                    torch.arange(rows),
                ),
                pages,
            )
        )
    return torch.cat(parts)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@torch.inference_mode()
def test_a_family_s_logits_are_its_own(family: str, tmp_path: Path) -> None:
    """Whole, cut, and token by token over scattered pages: what transformers computes alone."""
    folder = saved(tmp_path, FAMILIES[family]())
    decoder = TransformersDecoder(*load_transformers(folder, torch.float32))
    tokens = torch.randint(VOCABULARY, (40,), generator=torch.Generator().manual_seed(1))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    expected = theirs(tokens.unsqueeze(0)).logits[0]
    for cuts in ([], [1], [16, 17], list(range(1, 40))):
        torch.testing.assert_close(computed(decoder, tokens, cuts), expected, atol=1e-4, rtol=1e-4)


def test_what_attention_cannot_give_is_refused(tmp_path: Path) -> None:
    """What config.json does not tell, attention is asked for before the first request."""
    sliding = transformers.Gemma2Config(
        **SMALL,
        intermediate_size=64,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=8,
        attn_logit_softcapping=None,
        use_sliding_window=False,  # which this family does not look at
    )
    with pytest.raises(ModelLoadError, match="sliding_window, which is not supported"):
        load_transformers(saved(tmp_path / "gemma2", sliding), torch.float32)
    alibi = transformers.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, seq_length=128
    )
    with pytest.raises(ModelLoadError, match=r"max_position_embeddings is None|interface"):
        load_transformers(saved(tmp_path / "bloom", alibi), torch.float32)


def test_a_module_that_fails_is_refused(tmp_path: Path) -> None:
    """Where its values contradict each other, transformers says so no sooner."""
    folder = saved(
        tmp_path,
        transformers.GPTJConfig(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128, rotary_dim=64
        ),
    )
    with pytest.raises(ModelLoadError, match="GPTJForCausalLM is not supported: it fails on a few"):
        load_transformers(folder, torch.float32)


def test_a_folder_that_transformers_cannot_load(tmp_path: Path) -> None:
    """Its message, in one line, names the folder."""
    folder = tiny_neox_directory(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=f"{folder}: transformers cannot load this model: "):
        load_transformers(folder, torch.float32)


def test_a_weight_that_is_missing_is_not_made_up(tmp_path: Path) -> None:
    """transformers would draw it at random."""
    file = tiny_neox_directory(tmp_path) / "model.safetensors"
    weights = load_file(file)
    del weights["gpt_neox.layers.1.mlp.dense_h_to_4h.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"1 are missing: gpt_neox\.layers\.1\.mlp"):
        load_transformers(tmp_path, torch.float32)


def test_loading_shows_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No progress bar and no warning in somebody's terminal."""
    folder = tiny_neox_directory(tmp_path)
    capfd.readouterr()
    load_transformers(folder, torch.float32)
    assert capfd.readouterr() == ("", "")
