"""GGUF blocks as codes, scales and minima: what `kernels/cpu_pack.py` lays out in panels.

The numbers are those of ggml's formats: `code * scale + minimum` has the bits that dequantising
gives. Three formats need no reading, only another order. Knows no file, no panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_LOW_NIBBLES = 0x0F0F0F0F0F0F0F0F


@dataclass(frozen=True, slots=True)
class Codes:
    """Quantised rows, one code a byte.

    bits: 4 or 8; codes of 4 bits without minima count from -8, codes of 8 bits are signed.
    codes: uint8 (4 bits) or int8 (8 bits) [out, in].
    scales, minima: fp16 or fp32 [out, in / group].
    """

    bits: int
    group: int
    codes: Tensor
    scales: Tensor
    minima: Tensor | None = None


def read_blocks(kind: str, blocks: Tensor) -> Codes:
    """Codes of blocks uint8 [out, blocks a row, bytes a block]; kind: one of QUANTISED."""
    return QUANTISED[kind](blocks)


def _q5_0(blocks: Tensor) -> Codes:
    codes = (_nibbles(blocks[..., 6:]) | _fifth_bits(blocks[..., 2:6])).view(torch.int8) - 16
    return Codes(8, 32, _row(codes), _halves(blocks, 0))


def _q5_1(blocks: Tensor) -> Codes:
    codes = (_nibbles(blocks[..., 8:]) | _fifth_bits(blocks[..., 4:8])).view(torch.int8)
    return Codes(8, 32, _row(codes), _halves(blocks, 0), _halves(blocks, 2))


def _q4_k(blocks: Tensor) -> Codes:
    codes = _nibbles(_fold(blocks[..., 16:], 4, 32))
    return Codes(4, 32, _row(codes), *_k_scales(blocks))


def _q5_k(blocks: Tensor) -> Codes:
    codes = _fold(_nibbles(_fold(blocks[..., 48:], 4, 32)), 2, 32).flatten(-3, -2)
    shifts = torch.arange(8, dtype=torch.uint8).unsqueeze(1)
    codes = codes | (blocks[..., None, 16:48] >> shifts & 1) << 4
    return Codes(8, 32, _row(codes.view(torch.int8)), *_k_scales(blocks))


def _q6_k(blocks: Tensor) -> Codes:
    low = _fold(_nibbles(_fold(blocks[..., :128], 2, 64)), 4, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).unsqueeze(1)
    high = _fold(blocks[..., 128:192], 2, 1, 32) >> shifts & 3
    codes = (low | high << 4).view(torch.int8) - 32
    scales = blocks[..., 192:208].view(torch.int8).float() * _halves(blocks, 208).unsqueeze(-1)
    return Codes(8, 16, _row(codes), scales.flatten(1))


# Formats of 32 inputs with their fp16 scale first, perhaps an fp16 minimum next, and codes as they
# are in panels: (bits, where the codes start).
PLAIN: dict[str, tuple[int, int]] = {"Q8_0": (8, 2), "Q4_0": (4, 2), "Q4_1": (4, 4)}

QUANTISED: dict[str, Callable[[Tensor], Codes]] = {
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}

FLOATS: dict[str, torch.dtype] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


def _fold(bytes_: Tensor, *sizes: int) -> Tensor:
    """The last dimension as several."""
    return bytes_.reshape(*bytes_.shape[:-1], *sizes)


def _row(codes: Tensor) -> Tensor:
    """[out, blocks, ...] to [out, in]."""
    return codes.flatten(1)


def _halves(blocks: Tensor, start: int) -> Tensor:
    """The fp16 number at a place in each block, [out, blocks]."""
    pair = blocks[..., start : start + 2].clone(memory_format=torch.contiguous_format)
    return pair.view(torch.float16).squeeze(-1)


def _nibbles(packed: Tensor) -> Tensor:
    """uint8 [..., b] to codes uint8 [..., 2 b]: the low halves of all bytes, then the high ones."""
    words = packed.clone(memory_format=torch.contiguous_format).view(torch.int64)
    codes = torch.empty(*words.shape[:-1], 2, words.shape[-1], dtype=torch.int64)
    torch.bitwise_and(words, _LOW_NIBBLES, out=codes[..., 0, :])
    torch.bitwise_and(words >> 4, _LOW_NIBBLES, out=codes[..., 1, :])
    return codes.view(torch.uint8).flatten(-2)


def _fifth_bits(packed: Tensor) -> Tensor:
    """uint8 [..., 4], one bit a weight, to uint8 [..., 32], each 0 or 16."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> shifts & 1) << 4).flatten(-2)


def _k_scales(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and minima fp32 [out, 8 blocks] of the K formats: 8 + 8 six-bit numbers in 12 bytes.

    Bytes 0-3 and 4-7 hold scales and minima 0-3 in their low six bits; scales and minima 4-7 have
    their low four bits in bytes 8-11 and their high two in the top of bytes 0-3 and 4-7. A K
    block's minimum is subtracted.
    """
    first, second, low = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scales = torch.cat([first & 63, low & 15 | first >> 2 & 48], dim=-1).float()
    minima = torch.cat([second & 63, low >> 4 | second >> 2 & 48], dim=-1).float()
    factors = _halves(blocks, 0).float().unsqueeze(-1), _halves(blocks, 2).float().unsqueeze(-1)
    return (factors[0] * scales).flatten(1), -(factors[1] * minima).flatten(1)
