"""The innermost loops of a matrix product, with every sum in a register.

A tile is a few rows of x times the 32 outputs of a few panels. Its sums are chains of fused
multiply-adds over the inputs in their order, whatever the tile's size, so a sum has the same bits
in every tile. Tiles are as large as the machine's registers allow: an FMA takes 4 cycles and two
start in each, so fewer than 8 chains leave the units idle.

The code is written with LLVM's builder because Numba has no loop over registers: sums are stack
slots here, which LLVM turns into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from radixchat.kernels.cpu_panels import INT4, INT8, PANEL_BYTES, UINT4
from radixchat.kernels.cpu_simd import HAS_AVX512, LANE_BYTES, WIDTH

# A tile of fp32 weights. 32 registers of 16 lanes hold 24 sums and 4 weights (260 GFLOP/s on a
# core of 4.1 GHz, its peak); 16 registers of 8 lanes 8 sums and 4 weights (120 GFLOP/s with the
# same core's AVX2, 64 with three rows, whose sums do not stay in registers).
TALL = 6 if HAS_AVX512 else 2
WIDE = 2 if HAS_AVX512 else 1
PAIR = 2
# Rows for which codes are widened in registers, beside sums, scales and minima; and rows up to
# which reading the codes again is faster than widening them in scratch.
FEW = 8 if HAS_AVX512 else 2
READ_ROWS = 16 if HAS_AVX512 else 2
STEP = 4  # inputs between two prefetches: a cache line of uint4 codes, two of int8

CACHE_LINE = 64
_VECTORS = PANEL_BYTES // LANE_BYTES  # of a panel
_FLOAT, _INT, _BYTE, _WORD = ir.FloatType(), ir.IntType(32), ir.IntType(8), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_INT, WIDTH)
_HALVES, _BYTES = ir.VectorType(ir.HalfType(), WIDTH), ir.VectorType(_BYTE, WIDTH)
_NUMBERS = types.int64


def wide_of(rows: int) -> int:
    """Panels at once for few rows: sums, scales and minima of all are to stay in registers."""
    if not HAS_AVX512:
        return 1
    return 3 if rows == 1 else 2 if rows <= 4 else 1


def _word(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _every(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * WIDTH)


def _at(builder: Any, base: Any, index: Any, stride: Any) -> Any:
    return builder.add(base, builder.mul(index, stride))


def _read(builder: Any, kind: Any, address: Any, offset: int = 0) -> Any:
    place = builder.add(address, _word(offset))
    value = builder.load(builder.inttoptr(place, kind.as_pointer()))
    value.align = 1
    return value


def _write(builder: Any, value: Any, address: Any, offset: int = 0) -> None:
    place = builder.add(address, _word(offset))
    builder.store(value, builder.inttoptr(place, value.type.as_pointer())).align = 1


def _fma(builder: Any, *values: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.v16f32")
    return builder.call(function, values)


def _prefetch(builder: Any, address: Any) -> None:
    pointer = _BYTE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    read, second_level, data = _INT(0), _INT(2), _INT(1)
    builder.call(function, [builder.inttoptr(address, pointer), read, second_level, data])


def _slots(builder: Any, count: int) -> list[Any]:
    return [cgutils.alloca_once(builder, _FLOATS) for _ in range(count)]


def _add_products(builder: Any, sums: Sequence[Sequence[Any]], x: Any, weights: Any) -> None:
    """Add to each row's sums its number, at the address in x, times the weights."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    for row, address in zip(sums, x, strict=True):
        first = builder.insert_element(nothing, _read(builder, _FLOAT, address), _INT(0))
        number = builder.shuffle_vector(first, nothing, _every(_INTS, 0))
        for slot, weight in zip(row, weights, strict=True):
            builder.store(_fma(builder, number, weight, builder.load(slot)), slot)


def _choose(builder: Any, index: Any, emitters: Sequence[Callable[[], None]]) -> None:
    """The code of all emitters; the one that runs is index, which is in range."""
    end = builder.append_basic_block("chosen")
    blocks = [builder.append_basic_block("choice") for _ in emitters]
    switch = builder.switch(index, blocks[-1])
    for number, block in enumerate(blocks[:-1]):
        switch.add_case(_word(number), block)
    for block, emit in zip(blocks, emitters, strict=True):
        builder.position_at_end(block)
        emit()
        builder.branch(end)
    builder.position_at_end(end)


def _emit_tile(builder: Any, rows: int, panels: int, arguments: Any) -> None:
    x, x_stride, weights, panel_stride, depth, out, out_stride, start = arguments
    sums = [_slots(builder, panels * _VECTORS) for _ in range(rows)]
    x_rows = [_at(builder, x, _word(row), x_stride) for row in range(rows)]
    out_rows = [_at(builder, out, _word(row), out_stride) for row in range(rows)]
    columns = [_at(builder, weights, _word(panel), panel_stride) for panel in range(panels)]
    with builder.if_else(builder.icmp_signed("!=", start, _word(0))) as (fresh, further):
        with fresh:
            for slot in (slot for row in sums for slot in row):
                builder.store(_every(_FLOATS, 0.0), slot)
        with further:
            for row, place in zip(sums, out_rows, strict=True):
                for vector, slot in enumerate(row):
                    builder.store(_read(builder, _FLOATS, place, vector * LANE_BYTES), slot)
    with cgutils.for_range(builder, depth) as loop:
        places = [_at(builder, column, loop.index, _word(PANEL_BYTES)) for column in columns]
        vectors = [
            _read(builder, _FLOATS, place, vector * LANE_BYTES)
            for place in places
            for vector in range(_VECTORS)
        ]
        numbers = [_at(builder, row, loop.index, _word(4)) for row in x_rows]
        _add_products(builder, sums, numbers, vectors)
    for row, place in zip(sums, out_rows, strict=True):
        for vector, slot in enumerate(row):
            _write(builder, builder.load(slot), place, vector * LANE_BYTES)


@intrinsic
def multiply_tile(
    _context: Any,
    rows: Any,
    panels: Any,
    x: Any,
    x_stride: Any,
    weights: Any,
    panel_stride: Any,
    depth: Any,
    out: Any,
    out_stride: Any,
    start: Any,
) -> Any:
    """Add x [rows, depth] times fp32 panels [panels, depth, 32] to out [rows, panels * 32].

    With start other than 0, write to out instead. 1 <= rows <= TALL, 1 <= panels <= WIDE.
    """

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rows, panels, *others = arguments
        above, beside = builder.sub(rows, _word(1)), builder.sub(panels, _word(1))
        index = builder.add(builder.mul(above, _word(WIDE)), beside)

        def emitter(tall: int, wide: int) -> Callable[[], None]:
            return lambda: _emit_tile(builder, tall, wide, others)

        sizes = [(tall, wide) for tall in range(1, TALL + 1) for wide in range(1, WIDE + 1)]
        _choose(builder, index, [emitter(tall, wide) for tall, wide in sizes])
        return context.get_dummy_value()

    return types.void(*[_NUMBERS] * 10), code


@intrinsic
def prefetch(_context: Any, address: Any) -> Any:
    """Ask the second-level cache for the line at the address, which may be anywhere."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        _prefetch(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64), code


@intrinsic
def stay_whole(_context: Any) -> Any:
    """Keep LLVM from copying the function that calls this into its callers.

    Numba optimises what a function calls once more inside it, at every level of calls; without
    this the tiles' code is multiplied by their call sites and a step compiles for a minute.
    """

    def code(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


def _load_scales(builder: Any, halves: Any, address: Any, slots: Sequence[Any]) -> None:
    """Numbers of a group for one panel, fp16 or fp32, to the slots."""
    with builder.if_else(builder.icmp_signed("!=", halves, _word(0))) as (half, full):
        with half:
            for vector, slot in enumerate(slots):
                value = _read(builder, _HALVES, address, vector * LANE_BYTES // 2)
                builder.store(builder.fpext(value, _FLOATS), slot)
        with full:
            for vector, slot in enumerate(slots):
                builder.store(_read(builder, _FLOATS, address, vector * LANE_BYTES), slot)


def _codes(builder: Any, kind: int, address: Any) -> list[Any]:
    """The 32 codes of one input as fp32: two vectors."""
    if kind == INT8:
        parts = [_read(builder, _BYTES, address, WIDTH * vector) for vector in range(_VECTORS)]
        return [builder.sitofp(part, _FLOATS) for part in parts]
    packed = builder.zext(_read(builder, _BYTES, address), _INTS)
    low, high = builder.and_(packed, _every(_INTS, 15)), builder.lshr(packed, _every(_INTS, 4))
    if kind == INT4:
        low, high = (builder.sub(part, _every(_INTS, 8)) for part in (low, high))
    return [builder.sitofp(part, _FLOATS) for part in (low, high)]


def _load_group(
    builder: Any, panels: int, number: Any, scales: Any, halves: Any, ahead: Any, slots: list[Any]
) -> None:
    """Scales or minima of a group for each panel, and a request for those `ahead` panels later."""
    address, stride = scales
    is_half = builder.icmp_signed("!=", halves, _word(0))
    size = builder.select(is_half, _word(PANEL_BYTES // 2), _word(PANEL_BYTES))
    for panel in range(panels):
        base = _at(builder, address, number, size)
        place = _at(builder, base, _word(panel), stride)
        part = slots[panel * _VECTORS : (panel + 1) * _VECTORS]
        _load_scales(builder, halves, place, part)
        _prefetch(builder, _at(builder, place, ahead, stride))


def _emit_rows(builder: Any, kind: int, rows: int, panels: int, arguments: Any) -> None:
    x, x_stride, depth, group, *source, ahead, out, out_stride = arguments
    codes, code_stride, scales, minima, scale_stride, halves = source
    sums = [_slots(builder, panels * _VECTORS) for _ in range(rows)]
    factors, offsets = (_slots(builder, panels * _VECTORS) for _ in range(2))
    for slot in (slot for row in sums for slot in row):
        builder.store(_every(_FLOATS, 0.0), slot)
    for slot in offsets:
        builder.store(_every(_FLOATS, -0.0), slot)
    has_minima = builder.icmp_signed("!=", minima, _word(0))
    code_bytes = PANEL_BYTES // 4 if kind == INT8 else PANEL_BYTES // 8
    columns = [_at(builder, codes, _word(panel), code_stride) for panel in range(panels)]
    x_rows = [_at(builder, x, _word(row), x_stride) for row in range(rows)]
    with cgutils.for_range_slice(builder, _word(0), depth, group, _WORD) as (first, number):
        _load_group(builder, panels, number, (scales, scale_stride), halves, ahead, factors)
        with builder.if_then(has_minima):
            _load_group(builder, panels, number, (minima, scale_stride), halves, ahead, offsets)
        rest = builder.sub(depth, first)
        count = builder.select(builder.icmp_signed("<", rest, group), rest, group)
        end = builder.add(first, count)
        with cgutils.for_range_slice(builder, first, end, _word(STEP), _WORD) as (k, _):
            places = [_at(builder, column, k, _word(code_bytes)) for column in columns]
            for place in places:
                later = _at(builder, place, ahead, code_stride)
                for line in range(0, STEP * code_bytes, CACHE_LINE):
                    _prefetch(builder, builder.add(later, _word(line)))
            for step in range(STEP):
                here = [builder.add(place, _word(step * code_bytes)) for place in places]
                parts = [part for place in here for part in _codes(builder, kind, place)]
                weights = [
                    _fma(builder, part, builder.load(factor), builder.load(offset))
                    for part, factor, offset in zip(parts, factors, offsets, strict=True)
                ]
                after = builder.mul(builder.add(k, _word(step)), _word(4))
                numbers = [builder.add(row, after) for row in x_rows]
                _add_products(builder, sums, numbers, weights)
    for number, row in enumerate(sums):
        place = _at(builder, out, _word(number), out_stride)
        for vector, slot in enumerate(row):
            _write(builder, builder.load(slot), place, vector * LANE_BYTES)


_KINDS = (INT8, UINT4, INT4)
_FEW_SIZES = [
    (rows, panels) for rows in range(1, FEW + 1) for panels in range(1, wide_of(rows) + 1)
]


@intrinsic
def multiply_rows(
    _context: Any,
    kind: Any,
    rows: Any,
    panels: Any,
    x: Any,
    x_stride: Any,
    depth: Any,
    group: Any,
    codes: Any,
    code_stride: Any,
    scales: Any,
    minima: Any,
    scale_stride: Any,
    halves: Any,
    ahead: Any,
    out: Any,
    out_stride: Any,
) -> Any:
    """Write x [rows, depth] times `panels` panels of codes of a kind to out [rows, panels * 32].

    Asks the cache for the panels that lie `ahead` further on. 1 <= rows <= FEW,
    1 <= panels <= wide_of(rows), depth a multiple of STEP.
    """

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind, rows, panels, *others = arguments
        index = builder.sub(panels, _word(1))
        for tall in range(1, FEW):
            is_taller = builder.icmp_signed(">", rows, _word(tall))
            skipped = builder.select(is_taller, _word(wide_of(tall)), _word(0))
            index = builder.add(index, skipped)
        kinds_before = builder.sub(kind, _word(_KINDS[0]))
        index = _at(builder, index, kinds_before, _word(len(_FEW_SIZES)))

        def emitter(kind: int, tall: int, wide: int) -> Callable[[], None]:
            return lambda: _emit_rows(builder, kind, tall, wide, others)

        _choose(builder, index, [emitter(kind, *size) for kind in _KINDS for size in _FEW_SIZES])
        return context.get_dummy_value()

    return types.void(*[_NUMBERS] * 16), code
