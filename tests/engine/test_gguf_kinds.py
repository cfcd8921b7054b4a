"""GGUF's numbers against the gguf package's."""

from __future__ import annotations

import numpy as np
from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGMLQuantizationType,
    GGUFValueType,
)

from radixchat.engine.gguf_kinds import (
    ARRAY_TYPE,
    BLOCK_KINDS,
    DEFAULT_ALIGNMENT,
    SCALAR_TYPES,
    STRING_TYPE,
)


def test_every_kind_of_blocks_is_the_package_s() -> None:
    """Number, name, weights and bytes; a kind that the package does not know yet is not tested."""
    for kind in GGMLQuantizationType:
        ours = BLOCK_KINDS[int(kind)]
        assert (ours.name, (ours.weights, ours.num_bytes)) == (kind.name, GGML_QUANT_SIZES[kind])
    assert DEFAULT_ALIGNMENT == GGUF_DEFAULT_ALIGNMENT


def test_every_type_of_value_is_the_package_s() -> None:
    """All of them are known, each as numpy's type of the same name."""
    names = {number: np.dtype(layout).name.upper() for number, layout in SCALAR_TYPES.items()}
    names |= {STRING_TYPE: "STRING", ARRAY_TYPE: "ARRAY"}
    assert names == {int(kind): kind.name for kind in GGUFValueType}
