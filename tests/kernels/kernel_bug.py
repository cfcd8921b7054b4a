"""`KernelBug`: a seeded bug of the kernels, and the stack of layers that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights
from radixchat.tests.seeded_bug import SeededBug


@dataclass(frozen=True, slots=True)
class KernelBug(SeededBug):
    """A bug of kernels/<module>.py."""

    PACKAGE: ClassVar[str] = "kernels"
    ROOT: ClassVar[str] = "layers"

    def stack(self, shape: LayerShape, layers: Sequence[LayerWeights]) -> LayerStack:
        """The layers with this bug; LookupError if it does not apply."""
        return cast("LayerStack", self.load_root().TorchLayers(shape, layers))


# In the layers in plain torch, which every other implementation is tested against.
TORCH_BUGS = (
    KernelBug(
        "tiles begin at the chunk",
        "reference",
        "for tile_start in range(0, kv_length, KEY_TILE):",
        "for tile_start in range((kv_length - rows) % 16, kv_length, KEY_TILE):",
    ),
    KernelBug(
        "a chunk may be any number of rows",
        "reference",
        "padded = -(-rows // ROW_ALIGNMENT) * ROW_ALIGNMENT",
        "padded = rows",
    ),
    KernelBug(
        "a row sees the next one",
        "reference",
        "scores.masked_fill_(key_positions > positions, -torch.inf)",
        "scores.masked_fill_(key_positions > positions + 1, -torch.inf)",
    ),
    KernelBug(
        "nothing is hidden near a border",
        "reference",
        "if tile_start + KEY_TILE > kv_length - rows + 1:",
        "if tile_start + KEY_TILE > kv_length - rows + 9:",
    ),
    KernelBug(
        "K and V are stored after attention",
        "layers",
        "        reference.store_kv(key, value, kv, step.slots)\n"
        "        attended = self._attention(query.contiguous(), kv, step)\n",
        "        attended = self._attention(query.contiguous(), kv, step)\n"
        "        reference.store_kv(key, value, kv, step.slots)\n",
    ),
    KernelBug(
        "a scale is that of the whole chunk",
        "reference",
        "scale = (wide.abs().amax(-1) / 127)",
        "scale = (wide.abs().amax().expand(wide.shape[:-1]) / 127)",
    ),
    KernelBug(
        "a norm is that of the whole chunk",
        "reference",
        "wide.pow(2).mean(-1, keepdim=True)",
        "wide.pow(2).mean()",
    ),
)
