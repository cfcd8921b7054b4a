"""Vectors of 16 fp32 lanes inside Numba functions, whatever the width of the machine's registers.

Numba's own loops leave accumulators in memory; a value of type `lanes` is an LLVM vector, so the
compiler keeps it in one AVX-512 register, two of AVX2 or four of NEON. Addresses are int64, in
bytes, and need no alignment. Every operation works lane by lane and rounds as IEEE says, `exp`
within 2 ulp; a result never depends on the register width. Knows no tensor and no layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

WIDTH = 16
LANE_BYTES = 4 * WIDTH
# Numba compiles for this machine unless NUMBA_CPU_FEATURES says for which.
_FEATURES = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
HAS_AVX512 = "+avx512f" in _FEATURES.split(",")

_FLOAT, _INT, _BYTE = ir.FloatType(), ir.IntType(32), ir.IntType(8)
_FLOATS, _INTS = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_INT, WIDTH)
_HALVES, _BYTES = ir.VectorType(ir.HalfType(), WIDTH), ir.VectorType(_BYTE, WIDTH)


class Lanes(types.Type):
    """The Numba type of 16 fp32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="lanes")


lanes = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A `lanes` value is an LLVM vector, in memory and in registers."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _FLOATS)


def _emits(signature: Any, emit: Callable[..., Any]) -> tuple[Any, Any]:
    """What an intrinsic returns: its types, and how emit(builder, *values) makes its code."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        value = emit(builder, *values)
        return context.get_dummy_value() if signature.return_type is types.void else value

    return signature, code


def _read(builder: Any, address: Any, kind: Any) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def _write(builder: Any, address: Any, value: Any) -> Any:
    done = builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
    done.align = 1
    return done


def _spread(builder: Any, scalar: Any) -> Any:
    """The scalar in every lane."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(nothing, scalar, _INT(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * WIDTH))


def _call(builder: Any, name: str, result: Any, *values: Any) -> Any:
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


@intrinsic
def load(_context: Any, address: Any) -> Any:
    """16 fp32 numbers at the address."""
    return _emits(lanes(types.int64), lambda b, at: _read(b, at, _FLOATS))


@intrinsic
def load_half(_context: Any, address: Any) -> Any:
    """16 fp16 numbers, exactly."""
    return _emits(lanes(types.int64), lambda b, at: b.fpext(_read(b, at, _HALVES), _FLOATS))


@intrinsic
def load_signed(_context: Any, address: Any) -> Any:
    """16 int8 numbers."""
    return _emits(lanes(types.int64), lambda b, at: b.sitofp(_read(b, at, _BYTES), _FLOATS))


@intrinsic
def load_low_nibbles(_context: Any, address: Any) -> Any:
    """The low four bits of 16 bytes."""

    def emit(b: Any, at: Any) -> Any:
        low = b.and_(_read(b, at, _BYTES), ir.Constant(_BYTES, [15] * WIDTH))
        return b.uitofp(low, _FLOATS)

    return _emits(lanes(types.int64), emit)


@intrinsic
def load_high_nibbles(_context: Any, address: Any) -> Any:
    """The high four bits of 16 bytes."""

    def emit(b: Any, at: Any) -> Any:
        high = b.lshr(_read(b, at, _BYTES), ir.Constant(_BYTES, [4] * WIDTH))
        return b.uitofp(high, _FLOATS)

    return _emits(lanes(types.int64), emit)


@intrinsic
def load_scalar(_context: Any, address: Any) -> Any:
    """One fp32 number, a float32 of Numba."""
    return _emits(types.float32(types.int64), lambda b, at: _read(b, at, _FLOAT))


@intrinsic
def load_half_scalar(_context: Any, address: Any) -> Any:
    """One fp16 number, exactly, as a float32 of Numba."""
    half = ir.HalfType()
    return _emits(types.float32(types.int64), lambda b, at: b.fpext(_read(b, at, half), _FLOAT))


@intrinsic
def everywhere(_context: Any, scalar: Any) -> Any:
    """The number in every lane."""
    return _emits(lanes(types.float32), _spread)


@intrinsic
def store(_context: Any, address: Any, value: Any) -> Any:
    """Write 16 fp32 numbers."""
    return _emits(types.void(types.int64, lanes), _write)


@intrinsic
def store_scalar(_context: Any, address: Any, value: Any) -> Any:
    """Write one fp32 number."""
    return _emits(types.void(types.int64, types.float32), _write)


@intrinsic
def store_signed(_context: Any, address: Any, value: Any) -> Any:
    """Write 16 int8 numbers, rounded to the nearest, ties to even; all must be in -128..127."""

    def emit(b: Any, at: Any, value: Any) -> Any:
        whole = _call(b, "llvm.nearbyint.v16f32", _FLOATS, value)
        return _write(b, at, b.fptosi(whole, _BYTES))

    return _emits(types.void(types.int64, lanes), emit)


@intrinsic
def store_half_scalar(_context: Any, address: Any, value: Any) -> Any:
    """Write one number rounded to fp16."""
    half = ir.HalfType()
    emit = lambda b, at, value: _write(b, at, b.fptrunc(value, half))  # noqa: E731
    return _emits(types.void(types.int64, types.float32), emit)


@intrinsic
def fma(_context: Any, x: Any, y: Any, z: Any) -> Any:
    """Each lane x * y + z, rounded once."""
    emit = lambda b, x, y, z: _call(b, "llvm.fma.v16f32", _FLOATS, x, y, z)  # noqa: E731
    return _emits(lanes(lanes, lanes, lanes), emit)


@intrinsic
def add(_context: Any, x: Any, y: Any) -> Any:
    """Each lane x + y."""
    return _emits(lanes(lanes, lanes), lambda b, x, y: b.fadd(x, y))


@intrinsic
def sub(_context: Any, x: Any, y: Any) -> Any:
    """Each lane x - y."""
    return _emits(lanes(lanes, lanes), lambda b, x, y: b.fsub(x, y))


@intrinsic
def mul(_context: Any, x: Any, y: Any) -> Any:
    """Each lane x * y."""
    return _emits(lanes(lanes, lanes), lambda b, x, y: b.fmul(x, y))


@intrinsic
def div(_context: Any, x: Any, y: Any) -> Any:
    """Each lane x / y."""
    return _emits(lanes(lanes, lanes), lambda b, x, y: b.fdiv(x, y))


@intrinsic
def maximum(_context: Any, x: Any, y: Any) -> Any:
    """Each lane the larger one."""

    def emit(b: Any, x: Any, y: Any) -> Any:
        return b.select(b.fcmp_ordered(">", x, y), x, y)

    return _emits(lanes(lanes, lanes), emit)


@intrinsic
def keep_first(_context: Any, value: Any, count: Any, other: Any) -> Any:
    """The first `count` lanes of value, the others of other; count may be negative or above 16."""

    def emit(b: Any, value: Any, count: Any, other: Any) -> Any:
        wide = ir.VectorType(ir.IntType(64), WIDTH)
        nothing = ir.Constant(wide, ir.Undefined)
        first = b.insert_element(nothing, count, _INT(0))
        counts = b.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * WIDTH))
        lane = ir.Constant(wide, list(range(WIDTH)))
        return b.select(b.icmp_signed("<", lane, counts), value, other)

    return _emits(lanes(lanes, types.int64, lanes), emit)


def _reduce(builder: Any, value: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Combine the lanes by halves: 8 pairs at distance 8, then 4, 2, 1; always in that order."""
    distance = WIDTH // 2
    while distance:
        order = [(lane + distance) % WIDTH for lane in range(WIDTH)]
        moved = builder.shuffle_vector(value, value, ir.Constant(_INTS, order))
        value = combine(builder, value, moved)
        distance //= 2
    return builder.extract_element(value, _INT(0))


@intrinsic
def total(_context: Any, value: Any) -> Any:
    """The sum of the lanes, by halves: a float32 of Numba."""
    emit = lambda b, v: _reduce(b, v, lambda b, x, y: b.fadd(x, y))  # noqa: E731
    return _emits(types.float32(lanes), emit)


@intrinsic
def largest(_context: Any, value: Any) -> Any:
    """The largest lane: a float32 of Numba."""

    def larger(b: Any, x: Any, y: Any) -> Any:
        return b.select(b.fcmp_ordered(">", x, y), x, y)

    return _emits(types.float32(lanes), lambda b, v: _reduce(b, v, larger))


@intrinsic
def absolute(_context: Any, value: Any) -> Any:
    """Each lane without its sign."""
    emit = lambda b, v: _call(b, "llvm.fabs.v16f32", _FLOATS, v)  # noqa: E731
    return _emits(lanes(lanes), emit)


@intrinsic
def _nearest(_context: Any, value: Any) -> Any:
    emit = lambda b, v: _call(b, "llvm.nearbyint.v16f32", _FLOATS, v)  # noqa: E731
    return _emits(lanes(lanes), emit)


@intrinsic
def _power_of_two(_context: Any, whole: Any) -> Any:
    """2 to the power of a whole number in -126..127, by its bits."""

    def emit(b: Any, whole: Any) -> Any:
        exponent = b.add(b.fptosi(whole, _INTS), ir.Constant(_INTS, [127] * WIDTH))
        return b.bitcast(b.shl(exponent, ir.Constant(_INTS, [23] * WIDTH)), _FLOATS)

    return _emits(lanes(lanes), emit)


@njit(nogil=True, inline="always")
def exp(x: Any) -> Any:
    """e to the x, within 2 ulp for x in -87..88; exactly 0 at and below -87, and for NaN.

    Cody-Waite reduction to |r| <= ln 2 / 2 and the polynomial of Cephes' expf.
    """
    low = everywhere(-87.0)
    clipped = maximum(x, low)
    whole = _nearest(mul(clipped, everywhere(1.44269504088896341)))
    r = fma(whole, everywhere(-0.693359375), clipped)
    r = fma(whole, everywhere(2.12194440e-4), r)
    p = fma(everywhere(1.9875691500e-4), r, everywhere(1.3981999507e-3))
    p = fma(p, r, everywhere(8.3334519073e-3))
    p = fma(p, r, everywhere(4.1665795894e-2))
    p = fma(p, r, everywhere(1.6666665459e-1))
    p = fma(p, r, everywhere(5.0000001201e-1))
    p = fma(p, mul(r, r), add(r, everywhere(1.0)))
    return where_above(x, low, mul(p, _power_of_two(whole)), everywhere(0.0))


@intrinsic
def where_above(_context: Any, x: Any, limit: Any, value: Any, other: Any) -> Any:
    """Each lane value where x > limit, else other; a NaN x takes other."""

    def emit(b: Any, x: Any, limit: Any, value: Any, other: Any) -> Any:
        return b.select(b.fcmp_ordered(">", x, limit), value, other)

    return _emits(lanes(lanes, lanes, lanes, lanes), emit)
