"""Rotary position tables: cos and sin for every position, with the checkpoint's scaling applied.

Knows the formulas of Llama 3, YaRN and linear scaling; no tensor of the model.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_config import ModelConfig, RopeScaling


def rotary_tables(config: ModelConfig, num_positions: int) -> tuple[Tensor, Tensor]:
    """cos and sin, each [num_positions, head_dim / 2] fp32.

    The arithmetic is fp32 throughout, as in transformers, so that both agree to the last bits.
    Raises ModelLoadError for an unknown scaling kind.
    """
    frequencies, factor = rotary_frequencies(config)
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), frequencies)
    return angles.cos() * factor, angles.sin() * factor


def rotary_frequencies(config: ModelConfig) -> tuple[Tensor, float]:
    """Inverse frequencies [head_dim / 2] fp32, and the factor that scales cos and sin."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponent)
    if config.rope_freq_factors is not None:
        return frequencies / torch.tensor(config.rope_freq_factors), 1.0
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies, 1.0
    match scaling.kind:
        case "linear":
            return frequencies / scaling.factor, 1.0
        case "llama3":
            return _llama3(frequencies, scaling), 1.0
        case "yarn":
            return _yarn(frequencies, scaling, config)
        case _:
            raise ModelLoadError(
                f"rope scaling {scaling.kind!r} is not supported; supported: linear, llama3, yarn"
            )


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1: long wavelengths are divided by factor, short ones kept, a ramp between."""
    wavelength = 2 * math.pi / frequencies
    longest = scaling.original_max_position / scaling.low_freq_factor
    shortest = scaling.original_max_position / scaling.high_freq_factor
    smooth = (scaling.original_max_position / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    ramp = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
    scaled = torch.where(wavelength > longest, frequencies / scaling.factor, ramp)
    return torch.where(wavelength < shortest, frequencies, scaled)


def _yarn(frequencies: Tensor, scaling: RopeScaling, config: ModelConfig) -> tuple[Tensor, float]:
    """YaRN (Peng et al. 2023): interpolate slow dimensions, keep fast ones, scale the attention."""

    def correction_dim(rotations: float) -> float:
        span = scaling.original_max_position / (rotations * 2 * math.pi)
        return config.head_dim * math.log(span) / (2 * math.log(config.rope_theta))

    low, high = correction_dim(scaling.beta_fast), correction_dim(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    if low == high:
        high += 0.001
    index = torch.arange(config.head_dim // 2, dtype=torch.float32)
    interpolated = ((index - low) / (high - low)).clamp(0, 1)
    scaled = frequencies / scaling.factor * interpolated + frequencies * (1 - interpolated)
    return scaled, _yarn_attention_factor(scaling)


def _yarn_attention_factor(scaling: RopeScaling) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(scaling.factor) + 1.0 if scaling.factor > 1 else 1.0

    if scaling.mscale and scaling.mscale_all_dim:
        return magnitude(scaling.mscale) / magnitude(scaling.mscale_all_dim)
    return magnitude(1.0)
