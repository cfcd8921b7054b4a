"""GGUF's numbers: the kinds of blocks a tensor may have, and the types of metadata values.

A test compares them with the gguf package's, whose import takes 90 ms because it brings a reader
and a quantiser for each kind. Knows no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A kind by its name in llama.cpp, with the weights and the bytes of a block."""

    name: str
    weights: int
    num_bytes: int


BLOCK_KINDS: Mapping[int, BlockKind] = MappingProxyType(
    {
        0: BlockKind("F32", 1, 4),
        1: BlockKind("F16", 1, 2),
        2: BlockKind("Q4_0", 32, 18),
        3: BlockKind("Q4_1", 32, 20),
        6: BlockKind("Q5_0", 32, 22),
        7: BlockKind("Q5_1", 32, 24),
        8: BlockKind("Q8_0", 32, 34),
        9: BlockKind("Q8_1", 32, 40),
        10: BlockKind("Q2_K", 256, 84),
        11: BlockKind("Q3_K", 256, 110),
        12: BlockKind("Q4_K", 256, 144),
        13: BlockKind("Q5_K", 256, 176),
        14: BlockKind("Q6_K", 256, 210),
        15: BlockKind("Q8_K", 256, 292),
        16: BlockKind("IQ2_XXS", 256, 66),
        17: BlockKind("IQ2_XS", 256, 74),
        18: BlockKind("IQ3_XXS", 256, 98),
        19: BlockKind("IQ1_S", 256, 50),
        20: BlockKind("IQ4_NL", 32, 18),
        21: BlockKind("IQ3_S", 256, 110),
        22: BlockKind("IQ2_S", 256, 82),
        23: BlockKind("IQ4_XS", 256, 136),
        24: BlockKind("I8", 1, 1),
        25: BlockKind("I16", 1, 2),
        26: BlockKind("I32", 1, 4),
        27: BlockKind("I64", 1, 8),
        28: BlockKind("F64", 1, 8),
        29: BlockKind("IQ1_M", 256, 56),
        30: BlockKind("BF16", 1, 2),
        34: BlockKind("TQ1_0", 256, 54),
        35: BlockKind("TQ2_0", 256, 66),
        39: BlockKind("MXFP4", 32, 17),
        40: BlockKind("NVFP4", 64, 36),
        41: BlockKind("Q1_0", 128, 18),
    }
)
DEFAULT_ALIGNMENT = 32
# Of metadata values, as numpy names them; strings and arrays have a length before them.
SCALAR_TYPES: Mapping[int, str] = MappingProxyType(
    {
        0: "<u1",
        1: "<i1",
        2: "<u2",
        3: "<i2",
        4: "<u4",
        5: "<i4",
        6: "<f4",
        7: "?",
        10: "<u8",
        11: "<i8",
        12: "<f8",
    }
)
STRING_TYPE = 8
ARRAY_TYPE = 9
