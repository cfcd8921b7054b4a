"""Any other causal language model of transformers, its attention replaced by ours over the pages.

transformers computes everything but attention; through its attention interface each layer hands
its query, key and value to us, who store K and V in the pool and read the whole history there. So
the prefix cache works for families that `engine/model.py` does not know. Knows no request.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig
from radixchat.kernels import ops

INTERFACE = "radixchat_paged"
# What an attention function may be asked for beyond causal softmax attention.
UNSUPPORTED = ("sliding_window", "softcap", "s_aux", "position_bias")
PROBE = (3, 1, 4, 1, 5, 9, 2)


@dataclass(slots=True)
class _Reading:
    """One forward pass: where its K and V go, and which layers have asked for attention."""

    pages: ops.KVPages
    step: ops.Ragged
    layers: set[int] = field(default_factory=set)


_reading: ContextVar[_Reading] = ContextVar("reading")


class TransformersDecoder:
    """Token ids to logits, through a module of transformers (a PreTrainedModel)."""

    def __init__(self, config: ModelConfig, module: Any) -> None:
        self.config = config
        self._module = module
        self.row_alignment = ops.ROW_ALIGNMENT

    def __call__(self, batch: Batch, pages: ops.KVPages) -> Tensor:
        """Logits fp32 [len(batch.logit_rows), vocab]; K and V of every row are stored."""
        return self._forward(batch.tokens, batch.positions, batch.logit_rows, pages, batch.step)[0]

    def _forward(
        self, tokens: Tensor, positions: Tensor, rows: Tensor, pages: ops.KVPages, step: ops.Ragged
    ) -> tuple[Tensor, set[int]]:
        reading = _Reading(pages, step)
        token = _reading.set(reading)
        try:
            logits = self._module(
                input_ids=tokens.unsqueeze(0),
                position_ids=positions.unsqueeze(0),
                use_cache=False,
                logits_to_keep=rows if len(rows) else 1,
            ).logits[0]
        finally:
            _reading.reset(token)
        return logits[: len(rows)].float(), reading.layers

    @torch.inference_mode()
    def probe(self) -> None:
        """Raise ModelLoadError unless a few tokens, cut in two, give the module's own logits."""
        self._module.set_attn_implementation("eager")
        device = next(self._module.parameters()).device
        tokens = torch.tensor(PROBE, device=device) % self.config.vocab_size
        expected = self._module(input_ids=tokens.unsqueeze(0), use_cache=False).logits[0].float()
        self._module.set_attn_implementation(INTERFACE)
        dtype = next(self._module.parameters()).dtype
        shape = (self.config.num_layers, 1, self.config.num_kv_heads, len(PROBE))
        pages = ops.empty_pages(*shape, self.config.head_dim, dtype, str(device))
        parts = []
        for start, end in ((0, 4), (4, len(PROBE))):
            rows = end - start
            step = ops.ragged([rows], [end], [[0]], len(PROBE), rows, str(device))
            positions = torch.arange(start, end, device=device)
            everything = torch.arange(rows, device=device)
            logits, layers = self._forward(tokens[start:end], positions, everything, pages, step)
            if layers != set(range(self.config.num_layers)):
                raise ModelLoadError(
                    f"{self.config.architecture} is not supported: of its "
                    f"{self.config.num_layers} layers, {len(layers)} use transformers' attention "
                    "interface"
                )
            parts.append(logits)
        error = float((torch.cat(parts) - expected).abs().max())
        limit = (1e-3 if dtype == torch.float32 else 5e-2) * max(1.0, float(expected.abs().max()))
        if not error <= limit:
            raise ModelLoadError(
                f"{self.config.architecture} is not supported: with paged attention its logits "
                f"differ by {error:.3g} from its own"
            )


def load_transformers(path: Path, dtype: torch.dtype) -> tuple[ModelConfig, Any]:
    """Load a folder of a family that only transformers knows, ready for TransformersDecoder.

    Raises ModelLoadError when transformers cannot load it, or its attention is not ours to give.
    """
    from transformers import AutoConfig, AutoModelForCausalLM  # two seconds of import
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(INTERFACE, _attend)
    try:
        described = AutoConfig.from_pretrained(path, local_files_only=True)
        module = AutoModelForCausalLM.from_pretrained(
            path, config=described, dtype=dtype, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelLoadError(f"{path}: transformers cannot load this model: {first}") from error
    config = _config(path, described.get_text_config())
    TransformersDecoder(config, module.eval()).probe()
    return config, module


def _config(path: Path, described: Any) -> ModelConfig:
    heads = getattr(described, "num_attention_heads", None)
    hidden = getattr(described, "hidden_size", None)
    layers = getattr(described, "num_hidden_layers", None)
    positions = getattr(described, "max_position_embeddings", None)
    for name, value in (
        ("num_attention_heads", heads),
        ("hidden_size", hidden),
        ("num_hidden_layers", layers),
        ("max_position_embeddings", positions),
        ("vocab_size", described.vocab_size),
    ):
        if not isinstance(value, int) or value < 1:
            raise ModelLoadError(
                f"{path}/config.json: {name} is {value!r}; it must be a whole number of 1 or more"
            )
    assert isinstance(heads, int)
    assert isinstance(hidden, int)
    assert isinstance(layers, int)
    assert isinstance(positions, int)
    return ModelConfig(
        architecture=str((described.architectures or [described.model_type])[0]),
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=getattr(described, "intermediate_size", None) or 4 * hidden,
        num_heads=heads,
        num_kv_heads=getattr(described, "num_key_value_heads", None) or heads,
        head_dim=getattr(described, "head_dim", None) or hidden // heads,
        vocab_size=described.vocab_size,
        max_position=positions,
        rms_eps=0.0,  # the module's own business, as are rotary positions
        rope_theta=0.0,
    )


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **asked: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: query [1, heads, rows, dim] → [1, rows, heads, dim]."""
    for name in UNSUPPORTED:
        if asked.get(name) is not None:
            raise ModelLoadError(
                f"{type(module).__name__} asks attention for {name}, which is not supported"
            )
    reading = _reading.get()
    layer = int(module.layer_idx)
    kv = reading.pages.layer(layer)
    dim = query.shape[-1]
    if key.shape[1:2] != kv.k.shape[1:2] or {key.shape[-1], value.shape[-1]} != {kv.k.shape[-1]}:
        raise ModelLoadError(
            f"{type(module).__name__} has K of {tuple(key.shape[1::2])} and V of "
            f"{tuple(value.shape[1::2])} heads and dimensions; all layers must have "
            f"{tuple(kv.k.shape[1::2])}"
        )
    reading.layers.add(layer)
    ops.store_kv(key[0].transpose(0, 1), value[0].transpose(0, 1), kv, reading.step.slots)
    rows = query[0].transpose(0, 1).contiguous()
    if scaling is not None and scaling != dim**-0.5:
        rows = rows * (scaling * dim**0.5)  # ours scales by dim**-0.5
    return ops.paged_attention(rows, kv, reading.step).unsqueeze(0), None
