"""Products of a few rows with vectors of 16 lanes, all accumulators in registers.

`scores` multiplies query rows with K, `mix` weights with V; both take what lies behind addresses
in a table, so that pages are read where they are. Every output is one chain of fp32 FMAs in the
order of k, started from 0 or from what memory holds: a cut of k, rows or vectors changes no bit.
Knows no page and no softmax.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import LANE_BYTES, WIDTH

_FLOAT, _BYTE, _LONG = ir.FloatType(), ir.IntType(8), ir.IntType(64)
_FLOATS, _BYTES = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_BYTE, WIDTH)

# 6 x 4 accumulators, 4 vectors and a broadcast number are 29 of AVX-512's 32 registers; with
# AVX2 (16 registers of half the width) or NEON (32 of a quarter) 6 x 1 is what fits.
VECTORS = 4 if binding.get_host_cpu_features().get("avx512f") else 1
MOST_ROWS = 6


def _long(number: int) -> Any:
    return ir.Constant(_LONG, number)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _vector(builder: Any, address: Any, codes: bool) -> Any:
    """16 numbers from unaligned memory: fp32, or int8 codes."""
    value = builder.load(_pointer(builder, address, _BYTES if codes else _FLOATS))
    value.align = 1
    return builder.sitofp(value, _FLOATS) if codes else value


def _broadcast(builder: Any, address: Any) -> Any:
    """One fp32 number in every lane."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(
        nothing, builder.load(_pointer(builder, address, _FLOAT)), ir.IntType(32)(0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, nothing, zeros)


def _block(rows: int, vectors: int, codes: bool, by_table: bool) -> Any:
    """The intrinsic acc[r, v] += x[r, k] * b[k, v] for k in 0..depth-1, depth at least 1.

    by_table: `at` holds an address for each k, b[k, v] lies `step` + v vectors behind it, and acc
    goes on from what `out` holds. Else `at` holds an address for each v, b[k, v] lies k * step
    behind it, and acc starts from 0.
    """
    size = WIDTH if codes else LANE_BYTES

    def emit(
        b: Any, x: Any, x_stride: Any, at: Any, step: Any, depth: Any, out: Any, o: Any
    ) -> None:
        outs = [
            [b.add(b.add(out, b.mul(_long(r), o)), _long(v * LANE_BYTES)) for v in range(vectors)]
            for r in range(rows)
        ]
        starts = [b.add(x, b.mul(_long(r), x_stride)) for r in range(rows)]
        if by_table:
            first = [[_vector(b, address, False) for address in line] for line in outs]
        else:
            first = [[ir.Constant(_FLOATS, [0.0] * WIDTH)] * vectors for _ in range(rows)]
            bases = [b.load(_pointer(b, b.add(at, _long(8 * v)), _LONG)) for v in range(vectors)]
        before, loop, after = b.block, b.append_basic_block("k"), b.append_basic_block("end")
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(_LONG)
        k.add_incoming(_long(0), before)
        sums = [[b.phi(_FLOATS) for _ in range(vectors)] for _ in range(rows)]
        if by_table:
            base = b.add(b.load(_pointer(b, b.add(at, b.shl(k, _long(3))), _LONG)), step)
            places = [b.add(base, _long(v * size)) for v in range(vectors)]
        else:
            places = [b.add(base, b.mul(k, step)) for base in bases]
        columns = [_vector(b, place, codes) for place in places]
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
        fma = cgutils.get_or_insert_function(b.module, kind, "llvm.fma.v16f32")
        following = b.add(k, _long(1))
        k.add_incoming(following, loop)
        done = []
        for r in range(rows):
            number = _broadcast(b, b.add(starts[r], b.shl(k, _long(2))))
            done.append([b.call(fma, [number, columns[v], sums[r][v]]) for v in range(vectors)])
            for v in range(vectors):
                sums[r][v].add_incoming(first[r][v], before)
                sums[r][v].add_incoming(done[r][v], loop)
        b.cbranch(b.icmp_signed("<", following, depth), loop, after)
        b.position_at_end(after)
        for r in range(rows):
            for v in range(vectors):
                b.store(done[r][v], _pointer(b, outs[r][v], _FLOATS)).align = 1

    @intrinsic
    def block(
        _context: Any, x: Any, x_stride: Any, at: Any, step: Any, depth: Any, out: Any, o: Any
    ) -> Any:
        def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            emit(builder, *values)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), code

    return block


_SCORES_1, _SCORES_2, _SCORES_3, _SCORES_4, _SCORES_6 = (
    _block(rows, VECTORS, False, False) for rows in (1, 2, 3, 4, 6)
)
_CODE_SCORES_1, _CODE_SCORES_2, _CODE_SCORES_3, _CODE_SCORES_4, _CODE_SCORES_6 = (
    _block(rows, VECTORS, True, False) for rows in (1, 2, 3, 4, 6)
)
_MIX_1, _MIX_2, _MIX_3, _MIX_4, _MIX_6 = (
    _block(rows, VECTORS, False, True) for rows in (1, 2, 3, 4, 6)
)
_CODE_MIX_1, _CODE_MIX_2, _CODE_MIX_3, _CODE_MIX_4, _CODE_MIX_6 = (
    _block(rows, VECTORS, True, True) for rows in (1, 2, 3, 4, 6)
)
_NARROW_1, _NARROW_6 = (_block(rows, 1, False, True) for rows in (1, 6))
_CODE_NARROW_1, _CODE_NARROW_6 = (_block(rows, 1, True, True) for rows in (1, 6))


@jit
def block_rows(rows: int) -> int:
    """How many of `rows` rows to compute together next: 6, 4, 3, 2 or 1."""
    if rows in (7, 8):  # 4 + 3 and 4 + 4 read as often as 6 + 1 and 6 + 2 and wait less
        return 4
    return MOST_ROWS if rows >= MOST_ROWS else min(rows, 4)


@jit
def scores(
    rows: int, codes: int, x: int, x_stride: int, at: int, step: int, depth: int, out: int, o: int
) -> None:
    """out[r, 16 v + lane] = sum over k of x[r, k] * b[v][k, lane], for VECTORS vectors.

    rows: as `block_rows` says; codes: whether b is int8, not fp32; at: address of VECTORS
    addresses, b[v] with `step` bytes from k to k; x_stride, o: bytes from row to row.
    """
    if codes:
        if rows == 6:
            _CODE_SCORES_6(x, x_stride, at, step, depth, out, o)
        elif rows == 4:
            _CODE_SCORES_4(x, x_stride, at, step, depth, out, o)
        elif rows == 3:
            _CODE_SCORES_3(x, x_stride, at, step, depth, out, o)
        elif rows == 2:
            _CODE_SCORES_2(x, x_stride, at, step, depth, out, o)
        else:
            _CODE_SCORES_1(x, x_stride, at, step, depth, out, o)
    elif rows == 6:
        _SCORES_6(x, x_stride, at, step, depth, out, o)
    elif rows == 4:
        _SCORES_4(x, x_stride, at, step, depth, out, o)
    elif rows == 3:
        _SCORES_3(x, x_stride, at, step, depth, out, o)
    elif rows == 2:
        _SCORES_2(x, x_stride, at, step, depth, out, o)
    else:
        _SCORES_1(x, x_stride, at, step, depth, out, o)


@jit
def mix(
    rows: int, codes: int, x: int, x_stride: int, at: int, dim: int, depth: int, out: int, o: int
) -> None:
    """out[r, 0..dim-1] += sum over k of x[r, k] * b[k]; dim a multiple of 16.

    rows, codes, x_stride, o: as in `scores`; at: address of `depth` addresses, the rows b[k].
    """
    size = 1 if codes else 4
    first = 0
    while first + VECTORS * WIDTH <= dim:
        _mix_wide(rows, codes, x, x_stride, at, first * size, depth, out + 4 * first, o)
        first += VECTORS * WIDTH
    while first < dim:
        _mix_narrow(rows, codes, x, x_stride, at, first * size, depth, out + 4 * first, o)
        first += WIDTH


@jit
def _mix_wide(
    rows: int, codes: int, x: int, x_stride: int, at: int, step: int, depth: int, out: int, o: int
) -> None:
    if codes:
        if rows == 6:
            _CODE_MIX_6(x, x_stride, at, step, depth, out, o)
        elif rows == 4:
            _CODE_MIX_4(x, x_stride, at, step, depth, out, o)
        elif rows == 3:
            _CODE_MIX_3(x, x_stride, at, step, depth, out, o)
        elif rows == 2:
            _CODE_MIX_2(x, x_stride, at, step, depth, out, o)
        else:
            _CODE_MIX_1(x, x_stride, at, step, depth, out, o)
    elif rows == 6:
        _MIX_6(x, x_stride, at, step, depth, out, o)
    elif rows == 4:
        _MIX_4(x, x_stride, at, step, depth, out, o)
    elif rows == 3:
        _MIX_3(x, x_stride, at, step, depth, out, o)
    elif rows == 2:
        _MIX_2(x, x_stride, at, step, depth, out, o)
    else:
        _MIX_1(x, x_stride, at, step, depth, out, o)


@jit
def _mix_narrow(
    rows: int, codes: int, x: int, x_stride: int, at: int, step: int, depth: int, out: int, o: int
) -> None:
    if rows == 6 and codes:
        _CODE_NARROW_6(x, x_stride, at, step, depth, out, o)
    elif rows == 6:
        _NARROW_6(x, x_stride, at, step, depth, out, o)
    else:
        for r in range(rows):
            if codes:
                _CODE_NARROW_1(x + r * x_stride, 0, at, step, depth, out + r * o, 0)
            else:
                _NARROW_1(x + r * x_stride, 0, at, step, depth, out + r * o, 0)
