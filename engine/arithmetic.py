"""What a step computes with: device, precision of weights and KV, exactness; asked and resolved.

Asked: `EngineConfig`'s fields of these names. Knows no model, no tensor and no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from radixchat.engine.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda")
WEIGHTS = ("auto", "fp32", "int8")
KV_FORMATS = ("auto", "int8")
DTYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
# Of K and of V, for a token and head.
INT8_SCALE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The choices resolved for this machine.

    device: "cpu" or "cuda". dtype: of activations and of weights that are plain tensors. weights:
    what `load_checkpoint` is to make of the matrices, one of WEIGHTS. kv: "int8" or the dtype's
    name. exact: whether a token's logits are the same bits however it came to be computed.
    """

    device: str
    dtype: torch.dtype
    weights: str
    kv: str
    exact: bool

    @property
    def kv_element_bytes(self) -> int:
        """Bytes of a number of K or V."""
        return 1 if self.kv == "int8" else self.dtype.itemsize

    @property
    def kv_scale_bytes(self) -> int:
        """Bytes that K's numbers of a token and head have in common, and V's."""
        return INT8_SCALE_BYTES if self.kv == "int8" else 0


def resolve_arithmetic(device: str, weights: str, kv: str, exact: bool | None) -> Arithmetic:
    """The arithmetic for what was asked. Raises ConfigError: this machine cannot do it."""
    if device == "auto":
        device = "cuda" if weights != "int8" and torch.cuda.is_available() else "cpu"
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("device is 'cuda', but torch finds no GPU; use 'auto' or 'cpu'")
        if weights == "int8":
            raise ConfigError(
                "weights is 'int8', which only the CPU computes with; "
                "use 'auto' or 'fp32' on the device 'cuda'"
            )
    dtype = _gpu_dtype(weights) if device == "cuda" else torch.float32
    # On the CPU it costs nothing: every product has one order of additions anyway.
    exact = device == "cpu" if exact is None else exact
    # A GPU's matrix units want plain numbers, whatever the file has, and so do torch's products,
    # which compute what need not be exact on the CPU.
    plain = device == "cuda" or (not exact and weights == "auto")
    return Arithmetic(
        device=device,
        dtype=dtype,
        weights="fp32" if plain else weights,
        kv="int8" if kv == "int8" else DTYPE_NAMES[dtype],
        exact=exact,
    )


def check_choices(**chosen: str) -> None:
    """Raise ConfigError unless device, weights and kv are words that there are."""
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(CHOICES[name])}")


def _gpu_dtype(weights: str) -> torch.dtype:
    if weights == "fp32":
        return torch.float32
    # Before sm_80 torch can emulate bf16, where the matrix units have fp16.
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float16


CHOICES = {"device": DEVICES, "weights": WEIGHTS, "kv": KV_FORMATS}
