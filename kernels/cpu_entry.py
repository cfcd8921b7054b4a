"""Compiled functions by their address, so that what calls them is compiled without them.

Numba optimises a function together with all that it calls, at every level again: the stack of
layers took 24 s of compiling with its products and attention inside it, and 14 s with these at
arm's length. A call costs some nanoseconds. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from radixchat.kernels.cpu_jit import keep


def entry(function: Callable[..., None], num_arguments: int) -> Any:
    """The function compiled for so many int64 arguments; its `.address` is what `call` takes."""
    signature = types.void(*[types.int64] * num_arguments)
    compiled = CFunc(function, (signature.args, signature.return_type), locals={}, options={})
    keep(compiled, function)
    compiled.compile()
    return compiled


@intrinsic
def call(_context: Any, address: Any, arguments: Any) -> Any:
    """Call the function at the address with a tuple of int64."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        numbers = cgutils.unpack_tuple(builder, values[1])
        kind = ir.FunctionType(ir.VoidType(), [word] * len(numbers))
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), numbers)
        return context.get_dummy_value()

    return types.void(types.int64, types.UniTuple(types.int64, len(arguments))), code


@intrinsic
def int64_at(_context: Any, address: Any) -> Any:
    """The address as a pointer to int64, for `numba.carray`."""
    return _pointer(types.int64)


@intrinsic
def int32_at(_context: Any, address: Any) -> Any:
    """The address as a pointer to int32, for `numba.carray`."""
    return _pointer(types.int32)


def _pointer(element: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return types.CPointer(element)(types.int64), code
