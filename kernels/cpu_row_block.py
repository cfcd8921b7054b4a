"""Products of a few rows with vectors of 16 lanes, all accumulators in registers.

`scores` multiplies query rows with K, `mix` weights with V; both take what lies behind addresses
in a table, so that pages are read where they are. Every output is one chain of fp32 FMAs in the
order of k, started from 0 or from what memory holds: a cut of k, rows or vectors changes no bit.
Knows no page and no softmax.

Blocks of fewer than 6 rows are those of decoding, which waits for memory: they have what comes
later in the table fetched meanwhile. One thread then reads 24 GB/s of fp32 from memory where it
read 16 without; int8, 14 instead of 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from radixchat.kernels.cpu_bytes import fetch
from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import HAS_AVX512, LANE_BYTES, WIDTH

# 6 x 4 accumulators, 4 vectors and a broadcast number are 29 of AVX-512's 32 registers; with
# AVX2 (16 registers of half the width) or NEON (32 of a quarter) 6 x 1 is what fits.
VECTORS = 4 if HAS_AVX512 else 1
MOST_ROWS = 6
# Keys between what `mix` reads and what it has fetched: 64 take as long as memory needs.
AHEAD = 64

_FLOAT, _BYTE, _INT, _LONG = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FLOATS, _BYTES = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_BYTE, WIDTH)
_ZERO = ir.Constant(_FLOATS, [0.0] * WIDTH)
_NOTHING = ir.Constant(_FLOATS, ir.Undefined)
_EVERYWHERE = ir.Constant(ir.VectorType(_INT, WIDTH), [0] * WIDTH)


def _long(number: int) -> Any:
    return ir.Constant(_LONG, number)


def _at(b: Any, address: Any, index: Any, step: Any) -> Any:
    """address + index * step."""
    return b.add(address, b.mul(index, step))


def _word(b: Any, address: Any) -> Any:
    """An address out of a table."""
    return b.load(b.inttoptr(address, _LONG.as_pointer()))


def _vector(b: Any, address: Any, codes: bool) -> Any:
    """16 numbers: fp32, or int8 codes."""
    value = b.load(b.inttoptr(address, (_BYTES if codes else _FLOATS).as_pointer()))
    value.align = 1
    return b.sitofp(value, _FLOATS) if codes else value


def _broadcast(b: Any, address: Any) -> Any:
    """One fp32 number in every lane."""
    number = b.load(b.inttoptr(address, _FLOAT.as_pointer()))
    return b.shuffle_vector(b.insert_element(_NOTHING, number, _INT(0)), _NOTHING, _EVERYWHERE)


def _sum(b: Any, x: Any, first: Any, depth: Any, columns: Callable[[Any], Any]) -> Any:
    """first[r][v] + x[r][k] * columns(k)[v] for k = 0 to depth - 1; x: addresses, depth >= 1."""
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    fma = cgutils.get_or_insert_function(b.module, kind, "llvm.fma.v16f32")
    before, loop, after = b.block, b.append_basic_block("k"), b.append_basic_block("end")
    b.branch(loop)
    b.position_at_end(loop)
    k = b.phi(_LONG)
    sums = [[b.phi(_FLOATS) for _ in line] for line in first]
    # An empty instruction that keeps the loop as it is: unrolled, its sums don't fit registers.
    still = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
    b.call(still, [], attrs=("convergent",))
    vectors = columns(k)
    done = []
    for address, line in zip(x, sums, strict=True):
        number = _broadcast(b, _at(b, address, k, _long(4)))
        done.append([b.call(fma, [number, *pair]) for pair in zip(vectors, line, strict=True)])
    following = b.add(k, _long(1))
    for phi, start, end in [(k, _long(0), following)] + [
        (sums[r][v], first[r][v], done[r][v]) for r in range(len(x)) for v in range(len(vectors))
    ]:
        phi.add_incoming(start, before)
        phi.add_incoming(end, loop)
    b.cbranch(b.icmp_signed("<", following, depth), loop, after)
    b.position_at_end(after)
    return done


def _scores_block(b: Any, rows: int, vectors: int, codes: bool, values: Any) -> None:
    x, x_stride, at, step, depth, out, out_stride = values
    entries = [_word(b, b.add(at, _long(8 * v))) for v in range(2 * vectors)]

    def columns(k: Any) -> Any:
        if rows < MOST_ROWS and codes:  # a line of codes holds several k: one fetch for each k
            entry = b.add(at, _long(8 * vectors))
            later = _word(b, _at(b, entry, b.and_(k, _long(vectors - 1)), _long(8)))
            fetch(b, _at(b, later, b.and_(k, _long(-vectors)), step))
        elif rows < MOST_ROWS:
            for later in entries[vectors:]:
                fetch(b, _at(b, later, k, step))
        return [_vector(b, _at(b, entry, k, step), codes) for entry in entries[:vectors]]

    first = [[_ZERO] * vectors for _ in range(rows)]
    starts = [_at(b, x, _long(r), x_stride) for r in range(rows)]
    done = _sum(b, starts, first, depth, columns)
    for r in range(rows):
        for v in range(vectors):
            _store(b, done[r][v], b.add(_at(b, out, _long(r), out_stride), _long(v * LANE_BYTES)))


def _mix_block(b: Any, rows: int, vectors: int, codes: bool, values: Any) -> None:
    x, x_stride, at, step, depth, out, out_stride = values
    size = WIDTH if codes else LANE_BYTES

    def columns(k: Any) -> Any:
        entry = _at(b, at, k, _long(8))
        if rows < MOST_ROWS:
            later = b.add(_word(b, b.add(entry, _long(8 * AHEAD))), step)
            for line in range(0, vectors * size, LANE_BYTES):
                fetch(b, b.add(later, _long(line)))
        place = b.add(_word(b, entry), step)
        return [_vector(b, b.add(place, _long(v * size)), codes) for v in range(vectors)]

    places = [
        [b.add(_at(b, out, _long(r), out_stride), _long(v * LANE_BYTES)) for v in range(vectors)]
        for r in range(rows)
    ]
    first = [[_vector(b, place, False) for place in line] for line in places]
    starts = [_at(b, x, _long(r), x_stride) for r in range(rows)]
    done = _sum(b, starts, first, depth, columns)
    for line, sums in zip(places, done, strict=True):
        for place, value in zip(line, sums, strict=True):
            _store(b, value, place)


def _store(b: Any, value: Any, address: Any) -> None:
    b.store(value, b.inttoptr(address, _FLOATS.as_pointer())).align = 1


def _by_rows(block: Callable[..., None], vectors: int) -> Any:
    """The intrinsic (rows, codes, *values) that goes to the block of so many rows and its type."""

    def emit(b: Any, rows: Any, codes: Any, values: Any) -> None:
        wrong, end = b.append_basic_block("wrong"), b.append_basic_block("end")
        choice = b.switch(b.add(rows, b.shl(codes, _long(3))), wrong)
        for count in (1, 2, 3, 4, MOST_ROWS):
            for is_codes in (False, True):
                case = b.append_basic_block("rows")
                choice.add_case(_long(count + 8 * is_codes), case)
                b.position_at_end(case)
                block(b, count, vectors, is_codes, values)
                b.branch(end)
        b.position_at_end(wrong)
        b.unreachable()
        b.position_at_end(end)

    @intrinsic
    def go(
        _context: Any,
        rows: Any,
        codes: Any,
        x: Any,
        x_stride: Any,
        at: Any,
        step: Any,
        depth: Any,
        out: Any,
        out_stride: Any,
    ) -> Any:
        def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            emit(builder, values[0], values[1], values[2:])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), code

    return go


# scores(rows, codes, x, x_stride, at, step, depth, out, out_stride):
# out[r, 16 v + lane] = sum over k of x[r, k] * b[v][k, lane], for VECTORS vectors.
# rows: as `block_rows` says; codes: 1 if b is int8, 0 if fp32; at: address of 2 * VECTORS
# addresses, b[v] with `step` bytes from k to k, then those that are wanted next; strides: bytes
# from row to row.
scores = _by_rows(_scores_block, VECTORS)
_mix_wide = _by_rows(_mix_block, VECTORS)
_mix_narrow = _by_rows(_mix_block, 1)


@jit
def block_rows(rows: int) -> int:
    """How many of `rows` rows to compute together next: 6, 4, 3, 2 or 1."""
    if rows in (7, 8):  # 4 + 3 and 4 + 4 read as often as 6 + 1 and 6 + 2 and wait less
        return 4
    return MOST_ROWS if rows >= MOST_ROWS else min(rows, 4)


@njit(nogil=True, inline="always")  # else the blocks of rows are compiled once more
def mix(
    rows: int, codes: int, x: int, x_stride: int, at: int, dim: int, depth: int, out: int, o: int
) -> None:
    """out[r, 0..dim-1] += sum over k of x[r, k] * b[k]; dim a multiple of 16, depth at least 1.

    rows, codes, x_stride, o: as in `scores`; at: address of `depth` addresses, the rows b[k],
    and of AHEAD more that are wanted next.
    """
    size = 1 if codes else 4
    first = 0
    while first + VECTORS * WIDTH <= dim:
        _mix_wide(rows, codes, x, x_stride, at, first * size, depth, out + 4 * first, o)
        first += VECTORS * WIDTH
    while first < dim:
        _mix_narrow(rows, codes, x, x_stride, at, first * size, depth, out + 4 * first, o)
        first += WIDTH
