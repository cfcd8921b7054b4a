"""How a packed weight matrix lies in memory: panels of 32 outputs, and the numbers that tell where.

```
  panel 0: outputs 0..31   input 0: the weights of 32 outputs
                           input 1: the weights of 32 outputs      uint4: 16 bytes, output j in the
                           ...                                     low half of byte j and output
  panel 1: outputs 32..63  input 0: ...                            16 + j in its high half
```
A product reads a panel from its first byte to its last, so decoding is one pass through memory;
the scales (and minima) of a group of inputs are 32 numbers of one panel in the same order. The
last panel is padded with zeros. 32 and not 64 outputs: 576 of them are 18 panels, which two
threads share evenly. Knows no tensor.
"""

from __future__ import annotations

from typing import Final

PANEL: Final = 32
PANEL_BYTES: Final = 4 * PANEL  # of one input's weights as fp32

# What a weight of a code is: the code itself times its scale plus its minimum (-0.0 without
# minima, which adds nothing to any number), in one rounding; uint4 without minima: code - 8.
FP32: Final = 0
INT8: Final = 1
UINT4: Final = 2
INT4: Final = 3

# Fields of a matrix's description, int64. Strides are bytes from one panel to the next.
FORMAT: Final = 0
OUT_FEATURES: Final = 1
IN_FEATURES: Final = 2
GROUP: Final = 3
CODES: Final = 4
CODE_STRIDE: Final = 5
SCALES: Final = 6
MINIMA: Final = 7  # address 0: none
SCALE_STRIDE: Final = 8
HALVES: Final = 9  # 1: scales and minima are fp16, 0: fp32
MATRIX_FIELDS: Final = 10
