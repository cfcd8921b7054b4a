"""Any other causal language model of transformers, its attention replaced by ours over the pages.

transformers computes everything but attention; through its attention interface each layer hands
its query, key and value to us, who store K and V in the pool and read the whole history there. So
the prefix cache works for families that `engine/model.py` does not know. Knows no request.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radixchat.engine.batch import Batch
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.transformers_config import read_transformers_config
from radixchat.kernels import ops

INTERFACE = "radixchat_paged"
# What an attention function may be asked for beyond causal softmax attention.
UNSUPPORTED = ("softcap", "s_aux", "position_bias")
PROBE = (3, 1, 4, 1, 5, 9, 2)


@dataclass(slots=True)
class _Reading:
    """One forward pass: who attends, in which shape, and which layers have asked for it."""

    attention: ops.StepAttention
    config: ModelConfig
    layers: set[int] = field(default_factory=set)


_reading: ContextVar[_Reading] = ContextVar("reading")


class TransformersDecoder:
    """Token ids to logits, through a module of transformers (a PreTrainedModel)."""

    def __init__(
        self,
        config: ModelConfig,
        module: Any,
        *,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        """threads: of our attention on the CPU, None for all. device: to where module is moved."""
        self.config = config
        self._module = module.to(device)
        self._device = device
        self.row_alignment = 1
        # Some families always compute the logits of all rows.
        self._keeps = "logits_to_keep" in inspect.signature(module.forward).parameters
        shape = ops.LayerShape(
            config.num_heads, config.num_kv_heads, config.head_dim, config.rms_eps
        )
        self._attention = ops.step_attention(shape, module.dtype, threads=threads, device=device)

    def __call__(self, batch: Batch, pages: ops.KVPages) -> Tensor:
        """Logits fp32 [len(batch.logit_rows), vocab]; K and V of every row are stored."""
        return self._forward(batch.tokens, batch.positions, batch.logit_rows, pages, batch.step)[0]

    def _forward(
        self, tokens: Tensor, positions: Tensor, rows: Tensor, pages: ops.KVPages, step: ops.Ragged
    ) -> tuple[Tensor, set[int]]:
        self._attention.begin(pages, step, len(tokens))
        reading = _Reading(self._attention, self.config)
        kept = {"logits_to_keep": rows if len(rows) else 1} if self._keeps else {}
        token = _reading.set(reading)
        try:
            logits = self._module(
                input_ids=tokens.unsqueeze(0),
                position_ids=positions.unsqueeze(0),
                use_cache=False,
                **kept,
            ).logits[0]
        finally:
            _reading.reset(token)
        logits = logits[: len(rows)] if self._keeps else logits[rows]
        return logits.float(), reading.layers

    @torch.inference_mode()
    def probe(self) -> None:
        """Raise ModelLoadError unless a few tokens, cut in two, give the module's own logits."""
        self._module.set_attn_implementation("eager")
        device = self._device
        tokens = torch.tensor(PROBE, device=device) % self.config.vocab_size
        expected = self._module(input_ids=tokens.unsqueeze(0), use_cache=False).logits[0].float()
        self._module.set_attn_implementation(INTERFACE)
        dtype = self._module.dtype
        shape = (self.config.num_layers, 1, self.config.num_kv_heads, len(PROBE))
        pages = ops.empty_pages(*shape, self.config.head_dim, dtype, device)
        parts = []
        for start, end in ((0, 4), (4, len(PROBE))):
            rows = end - start
            step = ops.ragged([rows], [end], [[0]], len(PROBE), rows, device)
            positions = torch.arange(start, end, device=device)
            backwards = torch.arange(rows - 1, -1, -1, device=device)
            logits, layers = self._forward(tokens[start:end], positions, backwards, pages, step)
            if layers != set(range(self.config.num_layers)):
                raise ModelLoadError(
                    f"{self.config.architecture} is not supported: of its "
                    f"{self.config.num_layers} layers, {len(layers)} use transformers' attention "
                    "interface"
                )
            parts.append(logits.flip(0))
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
    config = read_transformers_config(path)
    from transformers import AutoModelForCausalLM  # two seconds of import, paid by the config
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(INTERFACE, _attend)
    try:
        with _quiet():
            module, found = AutoModelForCausalLM.from_pretrained(
                path,
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelLoadError(
            f"{path}: transformers cannot load this model: {_first_line(error)}"
        ) from error
    lacking = sorted(found["missing_keys"])
    if lacking:
        raise ModelLoadError(f"{path}: of its weights {len(lacking)} are missing: {lacking[0]} …")
    decoder = TransformersDecoder(config, module.eval(), threads=1)
    try:
        decoder.probe()
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise ModelLoadError(
            f"{config.architecture} is not supported: it fails on a few tokens: "
            f"{_first_line(error)}"
        ) from error
    return config, module


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bar and warnings: the terminal is somebody's chat."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **asked: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: query [1, heads, rows, dim] → [1, rows, heads, dim]."""
    reading = _reading.get()
    config, layer = reading.config, int(module.layer_idx)
    if sliding_window is not None and sliding_window < config.max_position:
        asked["sliding_window"] = sliding_window
    for name in (*UNSUPPORTED, "sliding_window"):
        if asked.get(name) is not None:
            raise ModelLoadError(
                f"{type(module).__name__} asks attention for {name}, which is not supported"
            )
    dim = config.head_dim
    expected = [(heads, dim) for heads in (config.num_heads, *[config.num_kv_heads] * 2)]
    shapes = [(part.shape[1], part.shape[3]) for part in (query, key, value)]
    if shapes != expected:
        raise ModelLoadError(
            f"{type(module).__name__} has queries, keys and values of {shapes} heads and "
            f"dimensions; supported are, in all layers, {expected}"
        )
    reading.layers.add(layer)
    rows = [part[0].transpose(0, 1) for part in (query, key, value)]
    if scaling is not None and scaling != dim**-0.5:
        rows[0] = rows[0] * (scaling * dim**0.5)  # ours scales by dim**-0.5
    return reading.attention(layer, *rows).unsqueeze(0), None
