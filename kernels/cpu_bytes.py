"""Single numbers at addresses, inside Numba functions: int64 words and int8 codes.

Knows no layout; `cpu_simd` has the fp32 numbers and the vectors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
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


@intrinsic
def prefetch(_context: Any, address: Any) -> Any:
    """Have the cache line of the address come, to be read; any address will do."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        fetch(builder, values[0])
        return context.get_dummy_value()

    return types.void(types.int64), code


def fetch(builder: Any, address: Any) -> None:
    """The code of `prefetch`."""
    place = builder.inttoptr(address, _BYTE.as_pointer())
    numbers = [ir.IntType(32)(number) for number in (0, 3, 1)]  # to read, keep near, data
    kind = ir.FunctionType(ir.VoidType(), [place.type, *(number.type for number in numbers)])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [place, *numbers])
