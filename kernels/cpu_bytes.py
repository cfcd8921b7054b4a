"""Single numbers at addresses, inside Numba functions: int64 words and int8 codes.

Knows no layout; `cpu_simd` has the fp32 numbers and the vectors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE, _LONG = ir.IntType(8), ir.IntType(64)


@intrinsic
def load_word(_context: Any, address: Any) -> Any:
    """One int64; the address must be a multiple of 8."""

    def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.load(builder.inttoptr(values[0], _LONG.as_pointer()))

    return types.int64(types.int64), code


@intrinsic
def store_word(_context: Any, address: Any, value: Any) -> Any:
    """Write one int64; the address must be a multiple of 8."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        builder.store(values[1], builder.inttoptr(values[0], _LONG.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def copy_byte(_context: Any, source: Any, target: Any) -> Any:
    """Copy one byte from the source address to the target address."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        source, target = (builder.inttoptr(value, _BYTE.as_pointer()) for value in values)
        builder.store(builder.load(source), target)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code
