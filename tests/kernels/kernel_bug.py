"""Seeded bugs of the kernels, and the stack of layers that has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights
from radixchat.tests.kernels.cpu_pieces import PIECES, CpuPieces
from radixchat.tests.seeded_bug import SeededBug


@dataclass(frozen=True, slots=True)
class TorchBug(SeededBug):
    """A bug of the layers in plain torch, which every other implementation is tested against."""

    PACKAGE: ClassVar[str] = "kernels"
    ROOT: ClassVar[str] = "layers"

    def stack(self, shape: LayerShape, layers: Sequence[LayerWeights]) -> LayerStack:
        """The layers with this bug; LookupError if it does not apply."""
        return cast("LayerStack", self.load_root().TorchLayers(shape, layers))


@dataclass(frozen=True, slots=True)
class CpuBug(SeededBug):
    """A bug of one of the compiled CPU kernels; nothing of it may be kept on disk."""

    PACKAGE: ClassVar[str] = "kernels"

    def stack(self, shape: LayerShape, layer: LayerWeights) -> LayerStack:
        """One layer with this bug, shared out among two parts; LookupError as above."""
        return CpuPieces(shape, layer, self.modules(*PIECES), num_parts=2)


@dataclass(frozen=True, slots=True)
class StepBug(SeededBug):
    """A bug of the compiled step, which calls those kernels; as slow to compile as the step."""

    PACKAGE: ClassVar[str] = "kernels"
    ROOT: ClassVar[str] = "cpu_layers"

    def stack(self, shape: LayerShape, layer: LayerWeights) -> LayerStack:
        """One layer with this bug, on two threads; LookupError as above."""
        return cast("LayerStack", self.load_root().CpuLayers(shape, [layer], 2))


TORCH_BUGS = (
    TorchBug(
        "tiles begin at the chunk",
        "reference",
        "for tile_start in range(0, kv_length, KEY_TILE):",
        "for tile_start in range((kv_length - rows) % 16, kv_length, KEY_TILE):",
    ),
    TorchBug(
        "a chunk may be any number of rows",
        "reference",
        "padded = -(-rows // ROW_ALIGNMENT) * ROW_ALIGNMENT",
        "padded = rows",
    ),
    TorchBug(
        "a row sees the next one",
        "reference",
        "scores.masked_fill_(key_positions > positions, -torch.inf)",
        "scores.masked_fill_(key_positions > positions + 1, -torch.inf)",
    ),
    TorchBug(
        "nothing is hidden near a border",
        "reference",
        "if tile_start + KEY_TILE > kv_length - rows + 1:",
        "if tile_start + KEY_TILE > kv_length - rows + 9:",
    ),
    TorchBug(
        "K and V are stored after attention",
        "layers",
        "        reference.store_kv(key, value, kv, step.slots)\n"
        "        attended = self._attention(query.contiguous(), kv, step)\n",
        "        attended = self._attention(query.contiguous(), kv, step)\n"
        "        reference.store_kv(key, value, kv, step.slots)\n",
    ),
    TorchBug(
        "a scale is that of the whole chunk",
        "reference",
        "scale = (wide.abs().amax(-1) / 127)",
        "scale = (wide.abs().amax().expand(wide.shape[:-1]) / 127)",
    ),
    TorchBug(
        "a norm is that of the whole chunk",
        "reference",
        "wide.pow(2).mean(-1, keepdim=True)",
        "wide.pow(2).mean()",
    ),
)

NO_BUG = CpuBug("no bug", "cpu_elementwise", "LANES = 16", "LANES = 16")
CPU_BUGS = (
    CpuBug(
        "a block of inputs forgets the one before",
        "cpu_product",
        "YES if first == 0 else NO",
        "YES",
    ),
    CpuBug(
        "a few rows sum some inputs in another order",
        "cpu_micro_kernel",
        "for step in range(STEP):",
        "for step in reversed(range(STEP)):",
    ),
    CpuBug(
        "the first groups' scales serve every block",
        "cpu_widen",
        "first // group * step",
        "0 * step",
    ),
    CpuBug(
        "a row goes on from the sum of the one before",
        "cpu_elementwise",
        "    for row in range(rows):\n"
        "        here, there = x + row * x_stride, out + row * out_stride\n"
        "        squares = everywhere(0.0)\n",
        "    squares = everywhere(0.0)\n"
        "    for row in range(rows):\n"
        "        here, there = x + row * x_stride, out + row * out_stride\n",
    ),
    CpuBug(
        "a row weighs the next key",
        "cpu_attention",
        "count = min(KEY_TILE, visible + row // group)\n        clear(",
        "count = min(KEY_TILE, visible + row // group + 1)\n        clear(",
    ),
    CpuBug(
        "pieces are folded from the end",
        "cpu_attention",
        "for tile in range(1, item[plan.END_TILE]):",
        "for tile in range(item[plan.END_TILE] - 1, 0, -1):",
    ),
    CpuBug(
        "a tile's keys are weighed by the chunk's first row",
        "cpu_attention",
        "visible = item[plan.FIRST_POSITION] + 1 - start",
        "visible = item[plan.FIRST_POSITION] + 1 - start - item[plan.FIRST_ROW]",
    ),
    CpuBug(
        "the last row of a chunk is not stored",
        "cpu_rotary",
        "if slots[row] >= 0:",
        "if slots[row] >= 0 and row + 1 < end_row:",
    ),
    StepBug(
        "attention begins before K and V are stored",
        "cpu_layers",
        "NORM_INPUT, PROJECT_QKV, ROTATE, ATTEND, FOLD,",
        "NORM_INPUT, PROJECT_QKV, ATTEND, ROTATE, FOLD,",
    ),
)
